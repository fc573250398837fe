import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { nanoUsd } from '../../src/cost/money.ts';
import { ratesFrom } from '../../src/cost/rates.ts';
import type { ServerParts } from '../../src/server/parts.ts';
import { type BareServer, keyNamed, relayedModel, startServer } from '../support/bare-server.ts';
import { type Ask, ask, chunksOf, contentOf, errorOf, type Reply, user } from '../support/http.ts';
import { waitUntil } from '../support/loopback/listener.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';

let server: BareServer | undefined;
let upstream: OpenAiServer | undefined;
afterEach(async () => {
  // Whatever became of a request, no money is left on hold.
  expect(server?.parts.ledger.recover()).toBe(0);
  await server?.close();
  await upstream?.close();
});

interface Setup {
  readonly script?: OpenAiScript;
  readonly parts?: Partial<ServerParts>;
  readonly timeoutMs?: number;
  readonly apiKey?: string;
}

/** The relayed model `loopback/m` costs 1 USD a million tokens in and 2 out; `free` and `unknown` cost that. */
async function start({ script, parts = {}, ...relay }: Setup = {}) {
  upstream = await startOpenAiServer(script);
  const models = [
    relayedModel('m', { privacy: 'no_training' }),
    relayedModel('unknown', { rates: undefined, privacy: 'local' }),
  ];
  server = await startServer(parts, { url: upstream.url, models, ...relay });
  return { server, upstream };
}

const chat = (fields: object = {}, headers: Ask['headers'] = {}) => {
  if (!server) throw new Error('start first');
  const body = { model: 'loopback/m', messages: user('hi'), max_tokens: 100, ...fields };
  return ask(server, '/v1/chat/completions', { body, headers });
};

// Far beyond what a busy machine takes to answer; only silence waits for it.
const PATIENCE_MS = 1_000;
const usage = { prompt_tokens: 1000, completion_tokens: 500 };
const priced: OpenAiScript = () => ({ ...replies.says('Hello', ' you'), usage });

/** The stored record of the relay behind a reply. */
async function recordOf(reply: Reply): Promise<Record<string, unknown>> {
  if (!server) throw new Error('start first');
  return (await ask(server, `/v1/orchestra/runs/${reply.headers['x-orchestra-run-id']}`)).json();
}

describe('a relay', () => {
  test('passes the request with our key, its own model name and nothing that is ours', async () => {
    const { upstream: seen } = await start({ script: priced });
    const fields = {
      preferences: { optimize: 'cheap' },
      provider: {},
      metadata: { orchestra_explain: 'full', own: 'x' },
      foo: 1,
    };
    expect((await chat(fields, { authorization: 'Bearer client-secret' })).status).toBe(200);
    const [request] = seen.requests;
    expect(request?.headers.authorization).toBe('Bearer sk-upstream');
    expect(request?.body).toMatchObject({ model: 'm', messages: user('hi'), foo: 1, metadata: { own: 'x' } });
    expect(JSON.stringify([request?.headers, request?.body])).not.toMatch(
      /client-secret|preferences|orchestra_|provider/,
    );
  });

  test('answers whole with the exact cost, a report, headers and a record', async () => {
    await start({ script: priced });
    const reply = await chat();
    expect(reply.json()).toMatchObject({
      choices: [{ message: { content: 'Hello you' } }],
      usage: { prompt_tokens: 1000, completion_tokens: 500, cost: 0.002 },
      x_orchestra: { status: 'completed', model: 'loopback/m', cost: { total: 0.002, estimated: false } },
    });
    expect(reply.headers['x-orchestra-cost-usd']).toBe('0.002');
    expect(await recordOf(reply)).toMatchObject({ kind: 'relay', cost: { total: 0.002 } });
  });

  test.each([true, false])('streams with the report on its last chunk (usage asked for: %s)', async (asked) => {
    const { upstream: seen } = await start({ script: priced });
    const reply = await chat({ stream: true, stream_options: { include_usage: asked } });
    const chunks = chunksOf(reply.text);
    expect(contentOf(chunks)).toBe('Hello you');
    expect(chunks.filter(({ x_orchestra }) => x_orchestra)).toEqual([chunks.at(-1)]);
    expect(chunks.at(-1)).toMatchObject({ x_orchestra: { cost: { total: 0.002 } } });
    expect(chunks.filter((chunk) => chunk.usage).length).toBe(asked ? 1 : 0);
    if (asked) expect(chunks.at(-1)?.usage).toMatchObject({ prompt_tokens: 1000, cost: 0.002 });
    expect(seen.requests[0]?.body['stream_options']).toEqual({ include_usage: true });
  });

  test('puts one cost, ours, in the place of the upstream’s', async () => {
    const body = { choices: [], usage: { ...usage, cost: 9, cost_details: { upstream_inference_cost: 9 }, extra: 1 } };
    await start({ script: () => ({ kind: 'json', status: 200, body }) });
    expect((await chat()).json()['usage']).toMatchObject({ cost: 0.002, extra: 1, cost_details: { tools: 0.002 } });
  });

  test('U04 estimates and says so where the upstream reports no usage', async () => {
    await start({ script: () => ({ ...replies.says('早'.repeat(300)), usage: null }) });
    for (const stream of [false, true]) {
      const reply = await chat({ stream, max_tokens: 1000, stream_options: { include_usage: true } });
      const record = await recordOf(reply);
      expect(record).toMatchObject({ status: 'completed', cost: { estimated: true, total: expect.any(Number) } });
      if (stream) continue;
      const told = reply.json()['usage'] as { prompt_tokens: number; completion_tokens: number };
      expect(told.prompt_tokens).toBeGreaterThan(0);
      expect(told.completion_tokens).toBeGreaterThanOrEqual(300);
    }
  });

  test('books an overrun in full and says so', async () => {
    await start({ script: priced });
    const reply = await chat({ max_tokens: 10 });
    expect(reply.json()['x_orchestra']).toMatchObject({
      cost: { total: 0.002 },
      warnings: [{ code: 'upstream_overrun' }],
    });
  });

  test('adds nothing in strict mode', async () => {
    await start({ script: priced });
    for (const stream of [false, true]) {
      const reply = await chat({ stream, stream_options: { include_usage: true } }, { 'x-orchestra-strict': '1' });
      expect(reply.text).not.toMatch(/orchestra|cost/);
      expect(reply.text).toContain('"prompt_tokens":1000');
      expect(Object.keys(reply.headers).join()).not.toContain('x-orchestra');
    }
  });

  test.each<[string, OpenAiScript]>([
    ['split in the middle of characters', () => ({ ...replies.says('Voilà ', '用中文 ', '😀'), bytesPerWrite: 1 })],
    ['with CRLF and comments', () => ({ ...replies.says('Voilà ', '用中文 ', '😀'), lineEnd: '\r\n', comments: true })],
    ['without [DONE]', () => ({ ...replies.says('Voilà ', '用中文 ', '😀'), done: false })],
  ])('S16 and #85 passes a stream intact that comes %s', async (_, script) => {
    await start({ script });
    const { text } = await chat({ stream: true });
    const content = text
      .replaceAll('\r\n', '\n')
      .match(/"content":"([^"]*)"/g)
      ?.map((piece) => JSON.parse(`{${piece}}`).content);
    expect(content?.join('')).toBe('Voilà 用中文 😀');
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
  });
});

test('S06 and #13 words glued to the finish reason are told apart', async () => {
  const glued = '{"id":"c","choices":[{"index":0,"delta":{"content":" end"},"finish_reason":"stop"}]}';
  await start({ script: () => ({ ...replies.says('The'), finish: false, insert: { afterChunks: 2, data: glued } }) });
  const chunks = chunksOf((await chat({ stream: true })).text);
  expect(contentOf(chunks)).toBe('The end');
  expect(chunks.at(-1)).toMatchObject({ choices: [{ delta: {}, finish_reason: 'stop' }], x_orchestra: {} });
  expect(chunks.filter(({ choices }) => choices[0]?.finish_reason)).toHaveLength(1);
});

describe('the other endpoints', () => {
  test('embeddings are relayed in the encoding asked for, with their cost', async () => {
    const { server: gateway } = await start();
    const reply = await ask(gateway, '/embeddings', {
      body: { model: 'loopback/m', input: ['x', 'yy'], encoding_format: 'base64' },
    });
    expect(reply.json()).toMatchObject({
      data: [{ embedding: expect.any(String) }, {}],
      usage: { prompt_tokens: 6, cost: 0.000006 },
    });
  });

  test('legacy completions are relayed', async () => {
    const { server: gateway, upstream: seen } = await start({
      script: () => ({ kind: 'json', status: 200, body: { choices: [{ text: 'x' }], usage } }),
    });
    const reply = await ask(gateway, '/v1/completions', { body: { model: 'loopback/m', prompt: 'Once' } });
    expect(reply.json()).toMatchObject({ choices: [{ text: 'x' }], usage: { cost: 0.002 } });
    expect(seen.requests[0]?.path).toBe('/v1/completions');
  });

  test.each(['/v1/embeddings', '/v1/completions'])('L04 the virtual model is no model for %s', async (path) => {
    const { server: gateway } = await start();
    const reply = await ask(gateway, path, { body: { model: 'orchestra', input: 'x', prompt: 'x' } });
    expect([reply.status, errorOf(reply)['param']]).toEqual([400, 'model']);
  });
});

describe('money and limits', () => {
  test.each<[string, object, string]>([
    ['a limit below the upper bound', { preferences: { max_cost_usd: 0.0001 } }, 'preferences.max_cost_usd'],
    ['a privacy class that the model lacks', { preferences: { privacy: 'zdr' } }, 'preferences.privacy'],
    ['a region that the model does not declare', { preferences: { regions: ['eu'] } }, 'preferences.regions'],
    ['a denied upstream', { preferences: { tools: { deny: ['upstream:loopback'] } } }, 'preferences.tools'],
    [
      'a limit on a model of unknown price',
      { model: 'loopback/unknown', preferences: { max_cost_usd: 1 } },
      'preferences.max_cost_usd',
    ],
  ])('%s is 422 and not a byte leaves', async (_, fields, param) => {
    const { upstream: seen } = await start();
    const reply = await chat(fields);
    expect([reply.status, errorOf(reply)['code'], errorOf(reply)['param']]).toEqual([
      422,
      'limits_unsatisfiable',
      param,
    ]);
    expect(seen.requests).toHaveLength(0);
  });

  test("what a key's ceiling refuses is not laid at the request", async () => {
    const { upstream: seen } = await start({ parts: { keys: [keyNamed('a', 'k', { max_cost_usd: 0.0001 })] } });
    const reply = await chat({}, { 'x-api-key': 'k' });
    expect([reply.status, errorOf(reply)['param']]).toEqual([422, null]);
    expect(errorOf(reply)['message']).toMatch(/^`max_cost_usd` of this key's ceiling is below/);
    expect(seen.requests).toHaveLength(0);
  });

  test('a spent day is 402, not to be retried, and the day counts over requests', async () => {
    const keys = [keyNamed('a', 'k', { max_cost_usd_per_day: 0.004 })];
    const { upstream: seen } = await start({ script: priced, parts: { keys } });
    const headers = { 'x-api-key': 'k' };
    const first = await chat({}, headers);
    expect([first.status, first.headers['x-orchestra-budget-remaining-usd']]).toEqual([200, '0.002']);
    expect((await chat({}, headers)).status).toBe(200);
    const third = await chat({}, headers);
    expect([third.status, third.headers['x-should-retry']]).toEqual([402, 'false']);
    expect(errorOf(third)).toMatchObject({ type: 'insufficient_quota', code: 'insufficient_quota' });
    expect(seen.requests).toHaveLength(2);
  });

  test('under a limit, an answer without a cap gets one: what the model writes, or what the money covers', async () => {
    const greedy: OpenAiScript = ({ body }) => {
      const completion_tokens = Number(body['max_tokens'] ?? 5000) * Number(body['n'] ?? 1);
      return { ...replies.says('much'), usage: { prompt_tokens: 1000, completion_tokens } };
    };
    const { upstream: seen } = await start({ script: greedy });
    await chat({ max_tokens: null });
    await chat({ max_tokens: null, preferences: { max_cost_usd: 1 } });
    const shrunk = [await chat({ max_tokens: null, preferences: { max_cost_usd: 0.0025 } })];
    shrunk.push(await chat({ max_tokens: null, n: 2, preferences: { max_cost_usd: 0.0025 } }));
    const [none, whole, one = 0, two = 0] = seen.requests.map(({ body }) => body['max_tokens'] as number | undefined);
    expect([none, whole]).toEqual([undefined, 1024]);
    expect(one).toBeGreaterThan(256);
    expect(one).toBeLessThan(1024);
    expect(Math.abs(one - 2 * two)).toBeLessThanOrEqual(30);
    for (const reply of shrunk) {
      expect(Number(reply.headers['x-orchestra-cost-usd'])).toBeLessThanOrEqual(0.0025);
      expect(reply.json()['x_orchestra']).toMatchObject({ warnings: [] });
    }
  });

  test('what the client asked for is not shrunk, and the refusal of an answer without a cap names a short one', async () => {
    const { upstream: seen } = await start({ script: priced });
    const asked = await chat({ max_tokens: 1000, preferences: { max_cost_usd: 0.0025 } });
    const open = await chat({ max_tokens: null, preferences: { max_cost_usd: 0.0015 } });
    expect([asked.status, open.status]).toEqual([422, 422]);
    const needed = errorOf(open) as unknown as { details: { needed_usd: string } };
    expect(Number(needed.details.needed_usd)).toBeLessThan(0.0018);
    expect(seen.requests).toHaveLength(0);
  });

  test('under a limit, a legacy completion without a cap gets the one that the API documents', async () => {
    const { server: gateway, upstream: seen } = await start({
      script: () => ({ kind: 'json', status: 200, body: { choices: [{ text: 'x' }], usage } }),
    });
    const body = { model: 'loopback/m', prompt: 'Once' };
    await ask(gateway, '/v1/completions', { body });
    await ask(gateway, '/v1/completions', { body: { ...body, preferences: { max_cost_usd: 1 } } });
    expect(seen.requests.map((request) => request.body['max_tokens'])).toEqual([undefined, 16]);
  });

  test.each<[string, object, number]>([
    ['a cap that legacy completions do not know', { max_completion_tokens: 1 }, 1],
    ['a cap beside it', { max_completion_tokens: 1, max_tokens: 1000 }, 1],
    ['many prompts', { prompt: Array(200).fill('Once') }, 200],
    ['many prompts of tokens', { prompt: Array(200).fill([1, 2]) }, 200],
    ['one prompt of tokens', { prompt: Array(200).fill(7) }, 1],
  ])('all that a legacy completion may write is held: %s', async (_, fields, prompts) => {
    const greedy: OpenAiScript = ({ body }) => {
      const completion_tokens = prompts * Number(body['max_tokens'] ?? 5000);
      return { kind: 'json', status: 200, body: { choices: [], usage: { prompt_tokens: 1, completion_tokens } } };
    };
    const { server: gateway } = await start({ script: greedy });
    const body = { model: 'loopback/m', prompt: 'Once', ...fields };
    const limited = await ask(gateway, '/v1/completions', { body: { ...body, preferences: { max_cost_usd: 0.01 } } });
    expect(limited.json()['x_orchestra']).toMatchObject({ warnings: [], cost: { total: expect.any(Number) } });
    expect(Number(limited.headers['x-orchestra-cost-usd'])).toBeLessThanOrEqual(0.01);
  });

  test('without a limit, a server that writes more than OpenAI documents has done nothing wrong', async () => {
    const { server: gateway } = await start({
      script: () => ({
        kind: 'json',
        status: 200,
        body: { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1000 } },
      }),
    });
    const reply = await ask(gateway, '/v1/completions', { body: { model: 'loopback/m', prompt: 'Once' } });
    expect(reply.json()['x_orchestra']).toMatchObject({ warnings: [] });
  });

  test.each([{ n: '64' }, { n: 1.5 }, { best_of: '64' }, { max_tokens: 2 ** 50 }])(
    '%j cannot be priced, so it is refused',
    async (fields) => {
      const { upstream: seen } = await start({ script: priced });
      const reply = await chat(fields);
      expect([reply.status, errorOf(reply)]).toMatchObject([400, { param: Object.keys(fields)[0] }]);
      expect(seen.requests).toHaveLength(0);
    },
  );

  test.each<[string, object, number]>([
    ['of the usual kind', { type: 'ephemeral' }, 2.5],
    ['that are kept for an hour', { type: 'ephemeral', ttl: '1h' }, 4],
  ])('writes to a cache %s are held and booked at their own price', async (_, cache_control, usdPerMillion) => {
    const rates = ratesFrom({ input: 2, output: 2, cache_write: 2.5 });
    upstream = await startOpenAiServer(({ body }) => {
      const all = Buffer.byteLength(JSON.stringify(body));
      const prompt_tokens_details = { cache_write_tokens: all };
      return { ...replies.says('ok'), usage: { prompt_tokens: all, completion_tokens: 1, prompt_tokens_details } };
    });
    server = await startServer({}, { url: upstream.url, models: [relayedModel('m', { rates })] });
    const content = [{ type: 'text', text: 'long '.repeat(4000), cache_control }];
    for (const stream of [false, true]) {
      const reply = await chat({ messages: [{ role: 'user', content }], max_tokens: 1, stream });
      const record = await recordOf(reply);
      const written = upstream.billed.promptTokens / (stream ? 2 : 1);
      expect(record).toMatchObject({ warnings: [] });
      expect(upstream.requests.at(-1)?.body['messages']).toEqual([{ role: 'user', content }]);
      if (!stream) expect(record).toMatchObject({ cost: { total: (written * usdPerMillion + 2) / 1e6 } });
    }
  });

  test('a cost that is unknown is not told as 0', async () => {
    await start({ script: priced });
    const reply = await chat({ model: 'loopback/unknown' });
    expect(reply.json()['usage']).toEqual(expect.not.objectContaining({ cost: expect.anything() }));
    expect(reply.json()['x_orchestra']).toMatchObject({ cost: { total: null } });
  });

  test('a record belongs to its key alone', async () => {
    const { server: gateway } = await start({ parts: { keys: [keyNamed('a', 'k'), keyNamed('b', 'l')] } });
    const reply = await chat({}, { 'x-api-key': 'k' });
    const path = `/v1/orchestra/runs/${reply.headers['x-orchestra-run-id']}`;
    expect((await ask(gateway, path, { headers: { 'x-api-key': 'k' } })).status).toBe(200);
    expect((await ask(gateway, path, { headers: { 'x-api-key': 'l' } })).status).toBe(404);
  });
});

describe('failures', () => {
  const secret = 'sk-very-secret';

  test.each<[string, OpenAiScript, number, object]>([
    ['429 stays 429', () => replies.rateLimited({ 'retry-after': '7' }), 429, { code: 'rate_limit_exceeded' }],
    ['500 becomes 502', () => replies.serverError(), 502, { code: 'upstream_failed', type: 'server_error' }],
    ['a bad key of ours becomes 502', () => replies.badKey(secret), 502, { code: 'upstream_failed' }],
    [
      "the client's mistake stays 400",
      () => replies.invalid(),
      400,
      { param: 'temperature', message: expect.stringContaining('temperature') },
    ],
    [
      'too long a prompt is context_length_exceeded',
      () => replies.contextTooLong,
      400,
      { code: 'context_length_exceeded' },
    ],
    ['silence becomes 502', () => replies.silence, 502, { code: 'upstream_failed' }],
    [
      'a cut becomes 502',
      () => ({ kind: 'raw', writes: ['{"choices"'], destroy: true }),
      502,
      { code: 'upstream_failed' },
    ],
    ['no JSON becomes 502', () => ({ kind: 'raw', writes: ['<html>'] }), 502, { code: 'upstream_failed' }],
  ])('%s, without key or host', async (_, script, status, error) => {
    const { upstream: seen } = await start({ script, timeoutMs: PATIENCE_MS, apiKey: secret });
    for (const stream of [false, true]) {
      const reply = await chat({ stream });
      expect([reply.status, errorOf(reply)]).toMatchObject([status, error]);
      expect(Object.keys(errorOf(reply))).toEqual(expect.arrayContaining(['message', 'type', 'param', 'code']));
      expect(reply.text).not.toMatch(/sk-very|127\.0\.0\.1/);
      if (status === 429) expect(reply.headers).toMatchObject({ 'retry-after': '7', 'retry-after-ms': '7000' });
    }
    expect(seen.requests).toHaveLength(2);
  });

  test('what certainly cost nothing is not booked, what may have is, and is not to be retried', async () => {
    await start({
      script: ({ attempt }) => (attempt === 1 ? replies.serverError() : replies.silence),
      timeoutMs: PATIENCE_MS,
    });
    const refused = await chat();
    expect(await recordOf(refused)).toMatchObject({ status: 'failed', cost: { total: 0 } });
    const silent = await chat();
    expect(silent.headers['x-should-retry']).toBe('false');
    const { cost } = await recordOf(silent);
    expect(cost).toMatchObject({ estimated: true });
    expect((cost as { total: number }).total).toBeGreaterThan(0);
  });

  test.each<[string, OpenAiScript]>([
    ['#65 a cut stream', () => ({ ...replies.says('a', 'b', 'c'), cutAfterChunks: 2 })],
    ['a malformed frame', () => ({ ...replies.says('a', 'b'), insert: { afterChunks: 2, data: '{"choices": [' } })],
    [
      'an error event',
      () => ({ ...replies.says('a', 'b'), insert: { afterChunks: 2, data: '{"error":{"message":"overloaded"}}' } }),
    ],
    ['silence in the middle', () => ({ ...replies.says('a', 'b'), hangAfterChunks: 2 })],
  ])('S14 %s ends in one error event and [DONE], and is booked', async (_, script) => {
    await start({ script, timeoutMs: PATIENCE_MS });
    const reply = await chat({ stream: true });
    expect(reply.status).toBe(200);
    const chunks = chunksOf(reply.text);
    expect(Object.keys(chunks.at(-1) ?? {})).toEqual(['error']);
    expect(chunks.at(-1)?.error).toMatchObject({ type: 'server_error', code: 'upstream_failed', param: null });
    expect(await recordOf(reply)).toMatchObject({ status: 'failed', cost: { estimated: true } });
  });

  test('a deadline is 504', async () => {
    await start({ script: () => replies.silence });
    const reply = await chat({ preferences: { max_latency_ms: 60 } });
    expect([reply.status, errorOf(reply)['code']]).toEqual([504, 'deadline_exceeded']);
  });

  test.each([true, false])(
    'S20 a client that leaves is felt by the upstream, and what was used is booked (stream: %s)',
    async (stream) => {
      const { server: gateway, upstream: seen } = await start({
        script: () => (stream ? { ...replies.says('a', 'b'), hangAfterChunks: 2 } : replies.silence),
      });
      const leave = new AbortController();
      const body = JSON.stringify({ model: 'loopback/m', messages: user('hi'), stream });
      const url = `${gateway.origin}/v1/chat/completions`;
      const request = fetch(url, { method: 'POST', body, signal: leave.signal });
      const gone = request.then((response) => response.text()).catch(() => 'gone');
      await waitUntil(() => seen.requests.length === 1, 'the upstream to be asked');
      if (stream) await request;
      await sleep(20);
      leave.abort();
      await Promise.all([seen.aborted(1), gone]);
      const day = gateway.parts.ledger.openBudget({
        runId: 'of this test',
        keyName: 'anonymous',
        maxCost: undefined,
        maxCostPerDay: nanoUsd(1e9),
      });
      await waitUntil(() => (day.remaining() ?? 1e9) < 1e9, 'the money to be booked');
    },
  );
});
