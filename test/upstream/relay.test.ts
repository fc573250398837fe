import { afterEach, describe, expect, test } from 'vitest';
import { createBreaker } from '../../src/upstream/breaker.ts';
import { UpstreamFailure } from '../../src/upstream/chat.ts';
import { openAiDialect } from '../../src/upstream/dialect.ts';
import { createRelay, type RelayOptions, type RelayRequest, type RelayTimeouts } from '../../src/upstream/relay.ts';
import type { RelayEvent } from '../../src/upstream/relay-stream.ts';
import { type OpenAiReply, replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';

const key = 'sk-marked-secret-0123456789';
const patient: RelayTimeouts = { firstTokenTimeoutMs: 5_000, betweenTokensTimeoutMs: 5_000, answerTimeoutMs: 5_000 };
const running: OpenAiServer[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()));
});

async function relayTo(reply: OpenAiReply | OpenAiScript, options: Partial<RelayOptions> = {}) {
  const server = await startOpenAiServer(typeof reply === 'function' ? reply : () => reply);
  running.push(server);
  const relay = createRelay({ name: 'loop', baseUrl: server.url, apiKey: key, timeouts: patient, ...options });
  return { server, relay };
}

const messages = [{ role: 'user', content: 'hi' }];
const whole = (part: Partial<RelayRequest> = {}): RelayRequest => ({
  path: '/chat/completions',
  model: 'm-1',
  body: { model: 'loop/m-1', messages },
  signal: new AbortController().signal,
  ...part,
});
const streamed = (part: Partial<RelayRequest> = {}, fields: object = {}): RelayRequest =>
  whole({ body: { model: 'loop/m-1', messages, stream: true, ...fields }, ...part });

async function open({ relay, request }: { relay: ReturnType<typeof createRelay>; request: RelayRequest }) {
  const response = await relay.forward(request);
  if (response.kind !== 'stream') throw new Error(`not a stream but ${response.kind}`);
  return response;
}

interface Read {
  readonly wire: string;
  readonly events: RelayEvent[];
  readonly failure: unknown;
}

/** What a server would write, and what ended it. */
async function read(events: AsyncIterable<RelayEvent>): Promise<Read> {
  const all: RelayEvent[] = [];
  let wire = '';
  try {
    for await (const event of events) {
      all.push(event);
      if (event.type === 'frames') wire += event.bytes.toString('utf8');
      else if (event.type === 'finish' || event.wasAskedFor) wire += `data: ${JSON.stringify(event.chunk)}\n\n`;
    }
  } catch (failure) {
    return { wire, events: all, failure };
  }
  return { wire, events: all, failure: undefined };
}

const textOf = (wire: string): string =>
  wire
    .split('\n\n')
    .filter(Boolean)
    .map((frame) => JSON.parse(frame.replace(/^data: /, '')))
    .map((chunk) => chunk.choices[0]?.delta.content ?? '')
    .join('');

async function failureOf(promise: Promise<unknown>): Promise<UpstreamFailure> {
  const thrown: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (thrown instanceof UpstreamFailure) return thrown;
  throw new Error('no upstream failure', { cause: thrown });
}

const fiveAndTwo = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };

describe('a whole answer', () => {
  test('comes back as it is, with its usage and the safe headers', async () => {
    const headers = { 'x-ratelimit-remaining-requests': '9', 'set-cookie': 'a=b', server: 'x', 'x-request-id': 'r' };
    const { relay } = await relayTo({ ...replies.says('Hel', 'lo'), usage: fiveAndTwo, headers });
    expect(await relay.forward(whole())).toMatchObject({
      kind: 'answer',
      headers: { 'x-ratelimit-remaining-requests': '9' },
      body: { choices: [{ message: { content: 'Hello' } }], usage: fiveAndTwo },
      usage: { inputTokens: 5, outputTokens: 2 },
    });
    const { headers: safe } = await relay.forward(whole());
    expect(Object.keys(safe)).toEqual(['x-ratelimit-remaining-requests']);
  });

  test('of embeddings comes back in the encoding that was asked for', async () => {
    const { relay, server } = await relayTo(replies.says('unused'));
    const body = { model: 'loop/e', input: ['x', 'y'], encoding_format: 'base64' };
    const answer = await relay.forward(whole({ path: '/embeddings', model: 'e', body }));
    expect(answer).toMatchObject({ kind: 'answer', usage: { inputTokens: 6, outputTokens: 0 } });
    expect(answer.kind === 'answer' && answer.body['data']).toHaveLength(2);
    expect(server.requests[0]).toMatchObject({ path: '/v1/embeddings', body: { ...body, model: 'e' } });
  });
});

describe('the request', () => {
  test('carries our key and model, asks for usage, and nothing that is meant for the gateway', async () => {
    const { relay, server } = await relayTo(replies.says('ok'));
    const fields = {
      preferences: { max_cost_usd: 1 },
      provider: { sort: 'price' },
      models: ['dear/model'],
      fallbacks: ['dear/model'],
      route: 'fallback',
      metadata: { orchestra_privacy: 'zdr', team: 'a' },
      stream_options: { include_obfuscation: false },
      tool_choice: null,
      max_completion_tokens: 9,
      unknown_field: 1,
    };
    const { events } = await open({ relay, request: streamed({}, fields) });
    await read(events);
    expect(server.requests[0]?.body).toEqual({
      model: 'm-1',
      messages,
      stream: true,
      stream_options: { include_obfuscation: false, include_usage: true },
      metadata: { team: 'a' },
      max_tokens: 9,
      unknown_field: 1,
    });
    expect(server.requests[0]?.headers).toMatchObject({
      authorization: `Bearer ${key}`,
      'accept-encoding': 'identity',
    });
  });

  test('speaks the dialect of the upstream', async () => {
    const body = {
      messages: [{ role: 'developer', content: 'x' }],
      max_tokens: 5,
      stream_options: { include_usage: true },
    };
    const common = await relayTo(replies.says('ok'));
    await common.relay.forward(whole({ body }));
    expect(common.server.requests[0]?.body).toEqual({
      model: 'm-1',
      messages: [{ role: 'system', content: 'x' }],
      max_tokens: 5,
    });
    const openAi = await relayTo(replies.says('ok'), { dialect: openAiDialect });
    await openAi.relay.forward(whole({ body }));
    expect(openAi.server.requests[0]?.body).toEqual({
      model: 'm-1',
      messages: body.messages,
      max_completion_tokens: 5,
    });
  });
});

describe('a stream', () => {
  const strange: [string, Partial<Exclude<OpenAiReply, { kind: 'json' | 'raw' | 'silence' }>>][] = [
    ['plain', {}],
    ['with usage on the finish chunk', { usagePlacement: 'finish_chunk' }],
    ['with usage on every chunk', { usagePlacement: 'every_chunk' }],
    ['with CRLF and comments', { lineEnd: '\r\n', comments: true }],
    ['byte by byte', { bytesPerWrite: 1, comments: true }],
    ['without [DONE]', { done: false }],
  ];

  test.each(strange)('%s arrives whole, its finish apart and its usage once and last', async (_, part) => {
    const { relay } = await relayTo({
      ...replies.says('Grüße ', '漢字 ', '"usage": {} 🎉'),
      usage: fiveAndTwo,
      ...part,
    });
    const { events, wire, failure } = await read((await open({ relay, request: streamed() })).events);
    expect(failure).toBeUndefined();
    expect(textOf(wire.replaceAll('\r\n', '\n'))).toBe('Grüße 漢字 "usage": {} 🎉');
    expect(wire).not.toMatch(/"usage":\{|keep-alive|\[DONE\]/);
    expect(events.filter(({ type }) => type === 'finish')).toHaveLength(1);
    expect(events.filter(({ type }) => type === 'usage')).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({
      type: 'usage',
      wasAskedFor: false,
      usage: { inputTokens: 5, outputTokens: 2 },
      chunk: { object: 'chat.completion.chunk', choices: [], usage: fiveAndTwo },
    });
  });

  test('says whether the client asked for usage', async () => {
    const { relay } = await relayTo({ ...replies.says('a'), usage: fiveAndTwo });
    const request = streamed({}, { stream_options: { include_usage: true } });
    const { events } = await read((await open({ relay, request })).events);
    expect(events.at(-1)).toMatchObject({ type: 'usage', wasAskedFor: true });
  });

  test('has no usage event when the upstream reports none', async () => {
    const { relay } = await relayTo({ ...replies.says('a'), usage: null });
    const { events } = await read((await open({ relay, request: streamed() })).events);
    expect(events.map(({ type }) => type)).not.toContain('usage');
  });

  test('passes untouched bytes, and only mends what clients choke on', async () => {
    const plain = 'data: {"choices":[{"index":0,"delta":{"content":"a"} } ],  "vendor":1}\n\n';
    const odd =
      'id: 7\nevent: chunk\ndata: {"choices":[{"index":0,"delta":{"content":"b"}}],"error":null,"usage":{}}\n\n';
    const { relay } = await relayTo({
      kind: 'raw',
      writes: [plain, ':\n\n', odd, 'data:\n\n', 'data: [DONE]\n\n', plain],
    });
    const { wire } = await read((await open({ relay, request: streamed() })).events);
    expect(wire).toBe(`${plain}data: {"choices":[{"index":0,"delta":{"content":"b"}}]}\n\n`);
  });

  test('is read no faster than it is asked for', async () => {
    const frame = `data: {"choices":[{"index":0,"delta":{"content":"${'x'.repeat(64_000)}"}}]}\n\n`;
    const writes = Array<string>(400).fill(frame);
    const { relay, server } = await relayTo({ kind: 'raw', writes: [...writes, 'data: [DONE]\n\n'] });
    const { events } = await open({ relay, request: streamed() });
    const iterator = events[Symbol.asyncIterator]();
    await iterator.next();
    await new Promise((resolve) => setTimeout(resolve, 300));
    // 25 MB could be here by now; what the sockets and one buffer hold is far less, so the server is still writing.
    expect(server.requests[0]?.finished).toBe(false);
    const rest = await read({ [Symbol.asyncIterator]: () => iterator });
    expect(rest.failure).toBeUndefined();
    expect(rest.wire.length).toBeGreaterThan(399 * 64_000);
  });

  test('gives its connection back', async () => {
    const { relay, server } = await relayTo(replies.says('a'));
    for (let round = 0; round < 8; round += 1) await read((await open({ relay, request: streamed() })).events);
    // A connection is free a moment after the stream that used it has ended, so two take turns.
    expect(server.requests).toHaveLength(8);
    expect(new Set(server.requests.map(({ port }) => port)).size).toBeLessThanOrEqual(2);
  });
});

describe('a failure', () => {
  test.each([
    ['rate_limited', replies.rateLimited({ 'retry-after': '3' })],
    ['unauthorized', replies.badKey(key)],
    ['server_error', replies.serverError()],
    ['malformed', { kind: 'json', status: 302, body: {}, headers: { location: 'http://127.0.0.1:9/' } }],
    ['malformed', { kind: 'raw', writes: ['not json'], headers: { 'content-type': 'application/json' } }],
    ['malformed', { kind: 'json', status: 200, body: {}, headers: { 'content-encoding': 'gzip' } }],
    ['server_error', { kind: 'json', status: 200, body: { error: { message: key } } }],
    ['connection', { ...replies.says('a'), cutAfterChunks: 1 }],
    ['cut_stream', { kind: 'raw', writes: ['{"choices":['], ending: 'cut' }],
  ] satisfies [string, OpenAiReply][])('of a whole answer is %s', async (kind, reply) => {
    const { relay } = await relayTo(reply);
    const failure = await failureOf(relay.forward(whole()));
    expect(failure.kind).toBe(kind);
    expect(`${failure.message} ${String(failure.cause)}`).not.toMatch(/marked|127\.0\.0\.1/);
  });

  test('keeps what the upstream says about waiting', async () => {
    const { relay } = await relayTo(replies.rateLimited({ 'retry-after': '3' }));
    expect(await failureOf(relay.forward(streamed()))).toMatchObject({ status: 429, retryAfterMs: 3_000 });
  });

  test("that is the client's own is told in the upstream's words, without key, host or link", async () => {
    const { relay, server } = await relayTo(() =>
      replies.invalid(`Bad ${key} at ${server.url.slice(7)} see https://internal.example/x`, 'messages[0].name'),
    );
    expect(await relay.forward(streamed())).toMatchObject({
      kind: 'rejected',
      status: 400,
      error: {
        message: 'Bad [hidden] at [hidden]/v1 see [link]',
        type: 'invalid_request_error',
        param: 'messages[0].name',
        code: 'invalid_value',
      },
    });
  });

  test('because the prompt is too long has one code, whatever the upstream calls it', async () => {
    const { relay } = await relayTo({
      kind: 'json',
      status: 400,
      body: { error: { message: 'prompt is too long', code: 400 } },
    });
    expect(await relay.forward(whole())).toMatchObject({
      kind: 'rejected',
      error: { code: 'context_length_exceeded' },
    });
  });

  test.each([
    ['cut_stream', { ...replies.says('a', 'b'), cutAfterChunks: 2 }],
    ['cut_stream', { ...replies.says('a', 'b'), finish: false, done: false }],
    ['malformed', { ...replies.says('a', 'b'), insert: { afterChunks: 2, data: '{"choices":[' } }],
    ['malformed', { ...replies.says('a', 'b'), insert: { afterChunks: 2, data: 'oops' } }],
    ['rate_limited', { ...replies.says('a', 'b'), insert: { afterChunks: 2, data: '{"error":{"code":429}}' } }],
    ['timeout', { ...replies.says('a', 'b'), hangAfterChunks: 2 }],
  ] satisfies [string, OpenAiReply][])(
    'in the middle of a stream is %s, after what came before',
    async (kind, reply) => {
      const timeouts = kind === 'timeout' ? { ...patient, betweenTokensTimeoutMs: 100 } : patient;
      const { relay } = await relayTo(reply, { timeouts });
      const { wire, failure } = await read((await open({ relay, request: streamed() })).events);
      expect(textOf(wire)).toMatch(/^a/);
      expect(failure).toMatchObject({ kind });
    },
  );

  test.each([
    ['no answer at all', replies.silence],
    ['headers only', replies.silenceAfterHeaders],
    ['a role but no token', { ...replies.says('a'), hangAfterChunks: 1 }],
    ['comments only', { kind: 'raw', writes: Array(500).fill(': keep-alive\n\n'), pauseMs: 10 }],
  ] satisfies [string, OpenAiReply][])('is silence before the first token: %s', async (_, reply) => {
    const { relay, server } = await relayTo(reply, { timeouts: { ...patient, firstTokenTimeoutMs: 100 } });
    const outcome = relay.forward(streamed()).then((response) => {
      if (response.kind !== 'stream') throw new Error('not a stream');
      return read(response.events).then(({ failure }) => Promise.reject(failure));
    });
    expect((await failureOf(outcome)).kind).toBe('timeout');
    await server.aborted(1);
  });

  test('is silence where a whole answer was expected', async () => {
    const { relay, server } = await relayTo(replies.silence, { timeouts: { ...patient, answerTimeoutMs: 100 } });
    expect((await failureOf(relay.forward(whole()))).kind).toBe('timeout');
    await server.aborted(1);
  });

  test('to connect names neither host nor key', async () => {
    const { relay, server } = await relayTo(replies.says('x'));
    await server.close();
    const failure = await failureOf(relay.forward(whole()));
    expect(failure.message).toBe('The connection to the upstream failed (ECONNREFUSED).');
    expect(failure.cause).toBeUndefined();
  });
});

describe('a client that leaves', () => {
  test('before the answer reaches the upstream', async () => {
    const { relay, server } = await relayTo(replies.silence);
    const leave = new AbortController();
    const answer = relay.forward(whole({ signal: leave.signal }));
    setTimeout(() => leave.abort(), 50);
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    await server.aborted(1);
  });

  test('in mid-stream reaches the upstream while nobody is reading', async () => {
    const { relay, server } = await relayTo({ ...replies.says('a', 'b'), hangAfterChunks: 2 });
    const leave = new AbortController();
    const { events } = await open({ relay, request: streamed({ signal: leave.signal }) });
    const iterator = events[Symbol.asyncIterator]();
    await iterator.next();
    leave.abort();
    await server.aborted(1);
    await expect(
      (async () => {
        for (;;) if ((await iterator.next()).done) return;
      })(),
    ).rejects.toMatchObject({ name: 'AbortError' });
  });

  test('before the first event was asked for reaches the upstream', async () => {
    const { relay, server } = await relayTo({ ...replies.says('a', 'b'), hangAfterChunks: 2 });
    const leave = new AbortController();
    await open({ relay, request: streamed({ signal: leave.signal }) });
    leave.abort();
    await server.aborted(1);
  });

  test('by no longer reading reaches the upstream', async () => {
    const { relay, server } = await relayTo({ ...replies.says('a', 'b'), hangAfterChunks: 2 });
    const { events } = await open({ relay, request: streamed() });
    for await (const _ of events) break;
    await server.aborted(1);
  });
});

test('a breaker hears how relays end, and stops them while it is open', async () => {
  const breaker = createBreaker({ failuresToOpen: 2, firstRestMs: 1_000, longestRestMs: 1_000, now: () => 0 });
  const { relay, server } = await relayTo(
    ({ attempt }) => (attempt === 2 ? replies.invalid() : replies.serverError()),
    {
      breaker,
    },
  );
  await failureOf(relay.forward(whole()));
  await relay.forward(whole());
  expect(breaker.state()).toBe('closed');
  await failureOf(relay.forward(whole()));
  expect(breaker.state()).toBe('open');
  expect(await failureOf(relay.forward(whole()))).toMatchObject({ kind: 'connection', retryAfterMs: 1_000 });
  expect(server.requests).toHaveLength(3);
});
