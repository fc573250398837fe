import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { loadContract } from '../../src/contract/load.ts';
import { promptTokensOf } from '../../src/cost/usage.ts';
import { createAnswerTool } from '../../src/tools/answer.ts';
import { createRemoteExpert } from '../../src/tools/remote-expert.ts';
import { createOpenAiUpstream } from '../../src/upstream/openai.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';
import { aSlot } from '../support/slots.ts';
import { executed, inputOf } from './tool-input.ts';

const contract = loadContract('slots-2');
let server: OpenAiServer;
afterEach(() => server.close());

async function answerTool(script: OpenAiScript, slot = aSlot({ id: 'answer-1' })) {
  server = await startOpenAiServer(script);
  const upstream = createOpenAiUpstream({ name: 'loopback', baseUrl: server.url, apiKey: 'sk-secret' });
  const timeouts = { firstTokenTimeoutMs: 300, betweenTokensTimeoutMs: 150 };
  return createAnswerTool({ slot, contract, expert: createRemoteExpert({ upstream, model: 'loopback', ...timeouts }) });
}

const usage = { prompt_tokens: 30, completion_tokens: 12 };

test('streams the answer and returns it whole, with its usage', async () => {
  const tool = await answerTool(() => ({
    ...replies.says('Good day'),
    reasoning: ['hm'],
    usage,
    finishReason: 'length',
  }));
  const { deltas, outcome } = await executed(tool, inputOf('Hi'));
  expect(deltas).toEqual([
    { type: 'reasoning', text: 'hm' },
    { type: 'text', text: 'Good day' },
  ]);
  expect(outcome).toMatchObject({
    observation: { kind: 'answer', text: 'Good day' },
    finishReason: 'length',
    usage: [{ meter: 'answer-1', usage: { inputTokens: 30, outputTokens: 12, calls: 1 } }],
  });
});

test('sends the chat as it came, the options of the answer, and at most the tokens of the slot', async () => {
  const tool = await answerTool(() => replies.says('Hi'), aSlot({ id: 'answer-1', maxOutputTokens: 40 }));
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi' },
  ] as const;
  await executed(tool, inputOf('Hi', { messages, answerOptions: { temperature: 0.1 } }));
  expect(server.requests[0]?.body).toMatchObject({ messages, temperature: 0.1, max_tokens: 40 });
});

test('puts what the run has learnt behind the last user message', async () => {
  const tool = await answerTool(() => replies.says('Hi'));
  const evidence = {
    documents: [{ text: 'Paris has 2 million people.', source: 'docs', privacy: 'any' as const }],
    codeRuns: [],
    attempts: [],
  };
  await executed(tool, inputOf('How many?', { evidence }));
  expect(JSON.stringify(server.requests[0]?.body['messages'])).toContain('Paris has 2 million people.');
});

test('tool calls are an answer without text', async () => {
  const call = { id: 'call-1', name: 'look', arguments: '{"a":1}' };
  const tool = await answerTool(() => ({ ...replies.calls(call), finishReason: 'tool_calls' }));
  const { deltas, outcome } = await executed(tool, inputOf('Look'));
  expect(deltas).toEqual(expect.arrayContaining([expect.objectContaining({ type: 'tool_call', name: 'look' })]));
  expect(outcome).toMatchObject({ observation: { kind: 'answer', text: '' }, finishReason: 'tool_calls' });
});

test('estimates usage on the dear side, and says so, when none is reported', async () => {
  const tool = await answerTool(() => ({ ...replies.says('abcdef'), usage: null }));
  const { outcome } = await executed(tool, inputOf('x'.repeat(300)));
  expect(outcome.usage[0]).toMatchObject({ estimated: true, usage: { outputTokens: 2, calls: 1 } });
  expect(outcome.usage[0]?.usage.inputTokens).toBeGreaterThanOrEqual(100);
});

test('estimates no more than was held for it, however long its words are', async () => {
  const slot = aSlot({ id: 'answer-1', windowTokens: 60 });
  const tool = await answerTool(
    () => ({ ...replies.says('five '.repeat(20)), finishReason: 'length', usage: null }),
    slot,
  );
  const { outcome } = await executed(tool, inputOf('x'.repeat(300), { maxOutputTokens: 20 }));
  expect(outcome.usage[0]?.usage).toMatchObject({ inputTokens: 60, outputTokens: 20 });
});

test('estimates what tools and schemas take as well', async () => {
  const tool = await answerTool(() => ({ ...replies.says('abcdef'), usage: null }));
  const described = { name: 'look', description: 'y'.repeat(3_000) };
  const answerOptions = { tools: [{ type: 'function', function: described }] };
  const { outcome } = await executed(tool, inputOf('x', { answerOptions }));
  expect(outcome.usage[0]?.usage.inputTokens).toBeGreaterThanOrEqual(1_000);
});

test.each([
  [
    'a rate limit',
    replies.rateLimited({ 'retry-after': '7' }),
    { retryable: true, failure: 'rate_limited', retryAfterMs: 7000 },
  ],
  ['a server error', replies.serverError(), { retryable: true, failure: 'server_error' }],
  ['a spent quota', replies.quotaExhausted, { retryable: false, failure: 'unauthorized' }],
])('%s before the first token is a failed observation that costs nothing', async (_name, reply, expected) => {
  const tool = await answerTool(() => reply);
  const { deltas, outcome } = await executed(tool, inputOf('Hi'));
  expect(deltas).toEqual([]);
  expect(outcome.observation).toMatchObject({ kind: 'failed', ...expected });
  expect(outcome.usage[0]?.usage).toMatchObject({ inputTokens: 0, outputTokens: 0, calls: 0 });
  expect(JSON.stringify(outcome)).not.toMatch(/127\.0\.0\.1|sk-/);
});

test('silence is a failed observation, booked as worked on', async () => {
  const tool = await answerTool(() => replies.silence);
  const { outcome } = await executed(tool, inputOf('Hi'));
  expect(outcome.observation).toMatchObject({ kind: 'failed', retryable: true, failure: 'timeout' });
  expect(outcome.usage[0]).toMatchObject({ estimated: true, usage: { calls: 1, outputTokens: 0 } });
});

test('an answer that breaks off fails after what was sent, and that is booked', async () => {
  const tool = await answerTool(() => ({ kind: 'completion', text: ['abc', 'def', 'ghi'], cutAfterChunks: 3 }));
  const { deltas, outcome } = await executed(tool, inputOf('Hi'));
  expect(deltas.length).toBeGreaterThan(0);
  expect(outcome.observation).toMatchObject({ kind: 'failed', retryable: true, failure: 'cut_stream' });
  expect(outcome.usage[0]).toMatchObject({ estimated: true, usage: { calls: 1 } });
  expect(outcome.usage[0]?.usage.outputTokens).toBeGreaterThan(0);
});

test('an empty answer is a failure with its usage', async () => {
  const tool = await answerTool(() => ({ ...replies.says(), usage }));
  const { outcome } = await executed(tool, inputOf('Hi'));
  expect(outcome).toMatchObject({
    observation: { kind: 'failed', retryable: true },
    usage: [{ usage: { inputTokens: 30 } }],
  });
});

test('a fired signal is thrown and reaches the upstream', async () => {
  const tool = await answerTool(() => ({ kind: 'completion', text: ['one', 'two'], hangAfterChunks: 2 }));
  const leaving = new AbortController();
  const execution = tool.execute(inputOf('Hi', { signal: leaving.signal }));
  expect((await execution.next()).value).toEqual({ type: 'text', text: 'one' });
  leaving.abort(new Error('the client left'));
  await expect(execution.next()).rejects.toMatchObject({ name: 'AbortError' });
  await server.aborted(1);
});

test('a reader who stops reading stops the upstream', async () => {
  const tool = await answerTool(() => ({ kind: 'completion', text: ['one', 'two'], hangAfterChunks: 2 }));
  for await (const delta of tool.execute(inputOf('Hi'))) {
    expect(delta).toEqual({ type: 'text', text: 'one' });
    break;
  }
  await server.aborted(1);
});

test('the bound covers every byte that is sent and the tokens that may be written', async () => {
  const tool = await answerTool(() => replies.says('Hi'), aSlot({ id: 'answer-1', maxOutputTokens: 40 }));
  const documents = Array.from({ length: 12 }, (_, number) => ({
    text: `${number} 数据 `.repeat(40),
    source: 'docs',
    title: '表题'.repeat(90),
    url: `https://example.org/${'long/'.repeat(40)}`,
    privacy: 'any' as const,
  }));
  const evidence = {
    documents,
    codeRuns: [{ code: 'print(1)', output: '1' }],
    attempts: [{ id: 'attempt-1', slot: 'answer-2', text: 'Four.' }],
  };
  const input = inputOf('Wie viele? 😀', { evidence, answerOptions: { stop: ['x'] } });
  const [bound] = tool.bound(input);
  await executed(tool, input);
  const sent = z
    .array(z.object({ role: z.string(), content: z.string() }))
    .parse(server.requests[0]?.body['messages'])
    .map(({ role, content }) => role + content)
    .join('');
  expect(bound).toMatchObject({ meter: 'answer-1', usage: { outputTokens: 40, calls: 1 } });
  const promptTokens = bound && promptTokensOf(bound.usage);
  expect(promptTokens).toBeGreaterThanOrEqual(Buffer.byteLength(sent));
  expect(promptTokens).toBeLessThan(3 * Buffer.byteLength(sent));
});
