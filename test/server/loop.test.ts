import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import type { ScriptedChoice } from '../../src/router/policies/scripted.ts';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import { type Chunk, chunksOf, contentOf, deltasOf, user } from '../support/http.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import type { OpenAiScript } from '../support/loopback/openai-server.ts';

/** The server on top of the real loop, real upstream clients and a loopback upstream. */
let gateway: TestGateway | undefined;
afterEach(async () => gateway?.close());

async function post(options: TestGatewayOptions, fields: object, path = '/v1/chat/completions') {
  gateway = await startTestGateway(options);
  const body = JSON.stringify({ model: 'orchestra', messages: user('What is the capital of Norway?'), ...fields });
  const response = await fetch(gateway.url + path, { method: 'POST', body });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

const search = { role: 'search', slot: 'search-1' } as const;
const answer = { role: 'answer', slot: 'answer-1' } as const;

test('a run that searches and answers is reported turn by turn, and found again', async () => {
  const { text, headers } = await post({ script: [search, answer] }, { preferences: { explain: 'full' } });
  const body = JSON.parse(text);
  expect(body.choices[0].message.content).toBe('Hello from loopback.');
  expect(body.x_orchestra.turns.map(({ role }: { role: string }) => role)).toEqual(['search', 'answer']);
  expect(body.usage.cost).toBeGreaterThan(0.008);
  const record = await fetch(`${gateway?.url}/v1/orchestra/runs/${headers.get('x-orchestra-run-id')}`);
  expect(await record.json()).toMatchObject({ kind: 'run', status: 'completed', cost: { total: body.usage.cost } });
});

test('a streamed run tells its progress, then the answer', async () => {
  const fields = { stream: true, preferences: { progress: 'reasoning' }, stream_options: { include_usage: true } };
  const { text } = await post({ script: [search, answer] }, fields);
  const chunks: Chunk[] = chunksOf(text);
  expect(contentOf(chunks)).toBe('Hello from loopback.');
  expect(deltasOf(chunks).filter(({ reasoning }) => reasoning)).toHaveLength(2);
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { cost: expect.any(Number) } });
});

test('T11 a call to a client tool ends the answer, and its result is accepted in the next request', async () => {
  const tools = [{ type: 'function', function: { name: 'city_temp', parameters: { type: 'object' } } }];
  const call = { id: 'call_1', name: 'city_temp', arguments: '{"city":"Oslo"}' };
  const first = JSON.parse((await post({ openAi: () => replies.calls(call) }, { tools })).text);
  expect(first.choices[0]).toMatchObject({ finish_reason: 'tool_calls', message: { tool_calls: [{ id: 'call_1' }] } });
  await gateway?.close();
  const messages = [...user('a'), first.choices[0].message, { role: 'tool', tool_call_id: 'call_1', content: '7' }];
  const second = await post({}, { tools, messages });
  expect(JSON.parse(second.text).choices[0].message.content).toBe('Hello from loopback.');
});

test.each<[string, object, number, string]>([
  ['a class that nobody offers', { privacy: 'local' }, 422, 'preferences.privacy'],
  ['a limit below the cheapest answer', { max_cost_usd: 0 }, 422, 'preferences.max_cost_usd'],
  ['a selector that matches nothing', { tools: { deny: ['answer-7'] } }, 400, 'preferences.tools.deny.0'],
])('%s is refused before anything is spent', async (_, preferences, status, param) => {
  const reply = await post({}, { preferences, stream: true });
  expect([reply.status, JSON.parse(reply.text).error.param]).toEqual([status, param]);
  expect(gateway?.openAi.requests).toHaveLength(0);
});

test('an upstream that fails for good is 502 without its host or key', async () => {
  const reply = await post({ openAi: () => replies.badKey('sk-loopback') }, {});
  expect(reply.status).toBe(502);
  expect(reply.text).not.toMatch(/sk-loopback|127\.0\.0\.1/);
});

test('U03 prompt tokens are those of the client’s own conversation, counted by whoever answered', async () => {
  const messages = user('東京の人口は何人ですか。'.repeat(40));
  const perCharacter: OpenAiScript = ({ body }) => ({
    ...replies.says('Many.'),
    usage: { prompt_tokens: z.array(message).parse(body['messages']).map(lengthOf).reduce(sum), completion_tokens: 2 },
  });
  const promptTokens = async (script: readonly ScriptedChoice[]) => {
    const { text } = await post({ script, openAi: perCharacter }, { messages });
    await gateway?.close();
    return JSON.parse(text).usage.prompt_tokens;
  };
  const own = await promptTokens([answer]);
  expect(own).toBe(480);
  const searched = await promptTokens([search, answer]);
  expect(searched).toBeGreaterThanOrEqual(own);
  expect(searched).toBeLessThan(1.1 * own);
});

const message = z.object({ content: z.string() });
const lengthOf = ({ content }: z.infer<typeof message>): number => content.length;
const sum = (left: number, right: number): number => left + right;

test('H21 an answer comes to an end before its client gives up, where the client says when that is', async () => {
  gateway = await startTestGateway({ openAi: () => replies.silence });
  const body = JSON.stringify({ model: 'orchestra', messages: user('hi') });
  const headers = { 'x-stainless-read-timeout': '0.2' };
  const response = await fetch(`${gateway.url}/v1/chat/completions`, { method: 'POST', body, headers });
  expect([response.status, JSON.parse(await response.text()).error.code]).toEqual([504, 'deadline_exceeded']);
});

test.each(['', 'never', '-1', '0', 'Infinity'])('H21 a timeout of %j is none', async (timeout) => {
  gateway = await startTestGateway();
  const body = JSON.stringify({ model: 'orchestra', messages: user('hi') });
  const headers = { 'x-stainless-timeout': timeout };
  expect((await fetch(`${gateway.url}/v1/chat/completions`, { method: 'POST', body, headers })).status).toBe(200);
});

test('metadata comes back with the answer, without preferences and what is no text', async () => {
  const metadata = { ticket: 'T-1', orchestra_max_turns: '2', odd: 7 };
  expect(JSON.parse((await post({}, { metadata })).text).metadata).toEqual({ ticket: 'T-1' });
  await gateway?.close();
  expect(JSON.parse((await post({}, {})).text)).not.toHaveProperty('metadata');
});

test('a ceiling may deny a slot that could not be started', async () => {
  const slot = { role: 'answer', quality: 'good' };
  const slots = {
    'answer-1': { ...slot, upstream: 'loopback', model: 'm', price: { input: 1, output: 4 } },
    'answer-9': { ...slot, local: 'gone' },
  };
  const ceiling = { tools: { deny: ['slot:answer-9'] } };
  const models = { gone: { path: '/nowhere/gone.gguf' } };
  expect((await post({ slots, config: { models, ceiling } }, {})).status).toBe(200);
});

test('a dry run calls nobody', async () => {
  const reply = await post({ script: [search] }, {}, '/v1/orchestra/decide');
  expect(JSON.parse(reply.text)).toMatchObject({ role: 'search', slot: 'search-1' });
  expect([gateway?.openAi.requests.length, gateway?.tavily.requests.length]).toEqual([0, 0]);
});

test('#64 and #67 a prompt too long for every slot is 400 context_length_exceeded before the stream', async () => {
  const reply = await post({}, { messages: user('word '.repeat(40_000)), stream: true });
  expect([reply.status, JSON.parse(reply.text).error.code]).toEqual([400, 'context_length_exceeded']);
  expect(gateway?.openAi.requests).toHaveLength(0);
});

test('#67 a prompt is called too long only when nothing but its length stands in the way', async () => {
  const fields = { messages: user('word '.repeat(40_000)), preferences: { privacy: 'local' } };
  const reply = await post({}, fields);
  expect([reply.status, JSON.parse(reply.text).error.code]).toEqual([422, 'limits_unsatisfiable']);
  await gateway?.close();
  const decided = await post({}, { messages: fields.messages }, '/v1/orchestra/decide');
  expect([decided.status, JSON.parse(decided.text).error.param]).toEqual([400, 'messages']);
});

test('limits are reported in the words and units of the API', async () => {
  const unpriced = { role: 'answer', upstream: 'loopback', model: 'unpriced', quality: 'good', price: 'unknown' };
  const priced = { ...unpriced, model: 'priced', price: { input: 1, output: 4 }, json_schema: true };
  const slots = { 'answer-1': priced, 'answer-2': unpriced, 'answer-3': { ...priced, json_schema: false } };
  const format = { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' } } };
  const { text } = await post({ slots }, { preferences: { max_cost_usd: 0.5 }, response_format: format });
  expect(JSON.parse(text).x_orchestra.limits_applied).toEqual([
    {
      limit: 'max_cost_usd',
      value: 0.5,
      source: 'body',
      removed: [{ slot: 'answer-2', reason: 'its price is unknown' }],
    },
    {
      limit: 'capabilities',
      value: { input: ['text'], client_tools: false, json_schema: true, context_tokens: 7 },
      source: 'request',
      removed: [{ slot: 'answer-3', reason: 'cannot hold to a JSON schema' }],
    },
  ]);
});
