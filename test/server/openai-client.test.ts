import OpenAI, {
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
  UnprocessableEntityError,
} from 'openai';
import { afterEach, describe, expect, test } from 'vitest';
import { type ErrorCode, errorCodes, errorTable, OrchestraError } from '../../src/errors.ts';
import type { RunEvent } from '../../src/router/run.ts';
import type { ServerParts } from '../../src/server/parts.ts';
import { type BareServer, keyNamed, relayedModel, startServer } from '../support/bare-server.ts';
import { askChat, errorOf } from '../support/http.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';
import { type Script, says, scriptedOrchestrator } from '../support/scripted-orchestrator.ts';

let server: BareServer | undefined;
let upstream: OpenAiServer | undefined;
afterEach(async () => {
  await server?.close();
  await upstream?.close();
});

const clientOf = ({ origin }: BareServer, maxRetries = 0) =>
  new OpenAI({ baseURL: `${origin}/v1`, apiKey: 'k', maxRetries });

async function client(script: Script = {}, parts: Partial<ServerParts> = {}) {
  server = await startServer({ orchestrator: scriptedOrchestrator(script), ...parts });
  return clientOf(server);
}

async function relayClient(script?: OpenAiScript) {
  upstream = await startOpenAiServer(script);
  server = await startServer({}, { url: upstream.url, models: [relayedModel('m')] });
  return clientOf(server);
}

const messages = [{ role: 'user' as const, content: 'hi' }];
const request = { model: 'orchestra', messages };
const tools = [{ type: 'function' as const, function: { name: 'city_temp', parameters: {} } }];
const calls: RunEvent[] = [
  { type: 'answer-delta', delta: { type: 'tool_call', index: 0, id: 'call_a', name: 'city_temp', argumentsDelta: '' } },
  { type: 'answer-delta', delta: { type: 'tool_call', index: 0, argumentsDelta: '{"city":"Oslo"}' } },
];
const usageAsked = { stream_options: { include_usage: true } };

describe('the official client', () => {
  test('reads a whole answer, with our additions where it keeps unknown keys', async () => {
    const openai = await client();
    const answer = await openai.chat.completions.create({ ...request, preferences: { explain: 'summary' } } as never);
    expect(answer).toMatchObject({
      choices: [{ message: { content: 'Hello there.' } }],
      usage: { total_tokens: 13, cost: 0.0015 },
      x_orchestra: { status: 'completed', turns: [{ role: 'answer' }] },
    });
  });

  test('reads a raw stream chunk by chunk', async () => {
    const openai = await client({ events: says('a', 'b') });
    const stream = await openai.chat.completions.create({ ...request, stream: true });
    const texts: (string | null | undefined)[] = [];
    for await (const chunk of stream) texts.push(chunk.choices[0]?.delta.content);
    expect(texts).toEqual(['', 'a', 'b', undefined]);
  });

  test.each(['plain', 'with progress and a live trace'])('accumulates a stream, %s', async (kind) => {
    const work: RunEvent[] = [{ type: 'turn-start', turn: 1 }];
    const openai = await client({ events: [...work, ...says('Hello', ' there.')] });
    const preferences = kind === 'plain' ? {} : { explain: 'full', progress: 'reasoning_content' };
    const stream = openai.chat.completions.stream({ ...request, ...usageAsked, preferences } as never);
    const final = await stream.finalChatCompletion();
    expect(final).toMatchObject({
      choices: [{ message: { role: 'assistant', content: 'Hello there.' }, finish_reason: 'stop' }],
      usage: { total_tokens: 13, cost: 0.0015 },
      x_orchestra: { status: 'completed' },
    });
  });

  test('accumulates tool calls', async () => {
    const openai = await client({ events: calls });
    const final = await openai.chat.completions.stream({ ...request, tools }).finalChatCompletion();
    expect(final.choices[0]).toMatchObject({
      message: { tool_calls: [{ id: 'call_a', function: { name: 'city_temp', arguments: '{"city":"Oslo"}' } }] },
      finish_reason: 'tool_calls',
    });
  });

  test('accumulates a relayed stream, tool calls and all', async () => {
    const openai = await relayClient(() =>
      replies.calls({ id: 'call_b', name: 'city_temp', arguments: '{"city":"Rome"}' }),
    );
    const relayed = { ...request, model: 'loopback/m', tools, ...usageAsked };
    const final = await openai.chat.completions.stream(relayed).finalChatCompletion();
    expect(final.choices[0]?.message.tool_calls).toMatchObject([{ id: 'call_b', function: { name: 'city_temp' } }]);
    expect(final.usage).toMatchObject({ cost: expect.any(Number) });
  });

  test('gets floats from relayed embeddings, which it asks for in base64', async () => {
    const openai = await relayClient();
    const { data } = await openai.embeddings.create({ model: 'loopback/m', input: ['x', 'yy'] });
    expect(data.map(({ embedding }) => [...embedding])).toEqual([
      [0, 1, 0.5],
      [1, 2, 0.5],
    ]);
  });

  test('lists and retrieves models', async () => {
    const openai = await relayClient();
    const ids: string[] = [];
    for await (const { id } of openai.models.list()) ids.push(id);
    expect(ids).toContain('loopback/m');
    expect(await openai.models.retrieve('loopback/m')).toMatchObject({ id: 'loopback/m' });
    expect(await openai.models.retrieve('orchestra:cheap')).toMatchObject({ id: 'orchestra:cheap' });
  });

  test('S14 raises a failure in the middle of a stream', async () => {
    const openai = await client({
      events: says('a'),
      record: { error: { code: 'upstream_failed', message: 'It broke off.' } },
    });
    const stream = await openai.chat.completions.create({ ...request, stream: true });
    const read = async () => {
      for await (const _ of stream);
    };
    await expect(read()).rejects.toThrow(/It broke off/);
  });

  test('aborts a stream without harm', async () => {
    const openai = await client({ events: says('a', 'b', 'c') });
    const stream = await openai.chat.completions.create({ ...request, stream: true });
    for await (const _ of stream) break;
    expect((await openai.chat.completions.create(request)).choices).toHaveLength(1);
  });
});

describe('errors', () => {
  test.each<[ErrorCode, new (...args: never[]) => APIError]>([
    ['invalid_request', BadRequestError],
    ['context_length_exceeded', BadRequestError],
    ['limits_unsatisfiable', UnprocessableEntityError],
    ['budget_exceeded', APIError],
    ['rate_limited', RateLimitError],
    ['upstream_failed', InternalServerError],
    ['policy_busy', InternalServerError],
    ['deadline_exceeded', InternalServerError],
  ])('1.11 %s reaches the client as its own class with message, code and request id', async (code, errorClass) => {
    const before = () => {
      throw new OrchestraError(code, 'The words for the user.', { param: 'messages' });
    };
    const openai = await client({ before });
    const failure = await openai.chat.completions.create(request).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(errorClass);
    expect(failure).toMatchObject({
      status: errorTable[code].status,
      code: errorTable[code].wireCode,
      type: errorTable[code].type,
      param: 'messages',
      requestID: expect.stringMatching(/^req_/),
    });
    expect((failure as Error).message).toContain('The words for the user.');
  });

  test('an unknown model and a wrong key are the classes the client knows', async () => {
    const openai = await client({}, { keys: [keyNamed('a', 'k')] });
    await expect(openai.chat.completions.create({ ...request, model: 'gpt-5' })).rejects.toThrow(NotFoundError);
    await expect(openai.get('/made-up/path')).rejects.toThrow(NotFoundError);
    const stranger = openai.withOptions({ apiKey: 'other' });
    await expect(stranger.chat.completions.create(request)).rejects.toThrow(AuthenticationError);
  });

  test.each(errorCodes)('1.11 %s has the envelope and the retry headers of its row', async (code) => {
    const before = () => {
      throw new OrchestraError(code, 'Words.', { details: { slot: 'answer-1' } });
    };
    await client({ before });
    if (!server) throw new Error('the server did not start');
    const reply = await askChat(server);
    const { status, type, wireCode, retryable } = errorTable[code];
    expect(reply.status).toBe(status);
    expect(errorOf(reply)).toEqual({
      message: 'Words.',
      type,
      param: null,
      code: wireCode,
      details: { slot: 'answer-1' },
    });
    expect(reply.headers['x-should-retry']).toBe(retryable ? undefined : 'false');
    const waits = status === 429 || status === 503 ? ['1', '1000'] : [undefined, undefined];
    expect([reply.headers['retry-after'], reply.headers['retry-after-ms']]).toEqual(waits);
  });

  test('what nobody foresaw is 500 with a fixed message', async () => {
    const before = () => {
      throw new Error('password 1234 at http://10.0.0.1');
    };
    await client({ before });
    if (!server) throw new Error('the server did not start');
    const reply = await askChat(server);
    expect(reply.status).toBe(500);
    expect(reply.text).not.toMatch(/1234|10\.0/);
  });

  test.each<[string, unknown, RegExp, RegExp]>([
    ['a cause that nobody foresaw', new Error('broken invariant'), /broken invariant/, /never/],
    [
      'a failed upstream, without its host',
      new OrchestraError('upstream_failed', 'It failed.', { cause: new Error('connect ECONNREFUSED 10.0.0.1:8000') }),
      /upstream_failed.*It failed/,
      /10\.0\.0\.1/,
    ],
  ])('the log tells %s', async (_, thrown, told, hidden) => {
    const lines: string[] = [];
    const stream = { write: (line: string) => lines.push(line) };
    const before = () => {
      throw thrown;
    };
    await client({ before }, { logger: { stream, level: 'error' } });
    if (!server) throw new Error('the server did not start');
    await askChat(server, {}, { 'x-client-request-id': 'mine-1', authorization: 'Bearer secret' });
    expect(lines.join()).toMatch(told);
    expect(lines.join()).toContain('mine-1');
    expect(lines.join()).not.toMatch(hidden);
    expect(lines.join()).not.toContain('secret');
  });

  test('the client does not repeat a request that failed after money was spent', async () => {
    let asked = 0;
    const record = { error: { code: 'policy_busy' as const, message: 'Busy.' } };
    const before = () => {
      asked += 1;
    };
    const openai = (await client({ before, events: [], record })).withOptions({ maxRetries: 2 });
    await expect(openai.chat.completions.create(request)).rejects.toThrow(InternalServerError);
    expect(asked).toBe(1);
  });
});
