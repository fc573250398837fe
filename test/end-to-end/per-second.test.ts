import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import { waitUntil } from '../support/loopback/listener.ts';
import { type OpenAiReply, replies } from '../support/loopback/openai-replies.ts';
import { startOpenAiServer } from '../support/loopback/openai-server.ts';
import { startTavilyServer } from '../support/loopback/tavily-server.ts';

/*
 * Rented machines, paid by the second: 0.1 USD, which is 100,000 nano-dollars a millisecond. Tokens cost nothing, so that a
 * cost is the time in the record and nothing else.
 */
const nanoUsdPerMs = 100_000;
const price = { per_second: '0.1' };
const answer = { role: 'answer', upstream: 'loopback', model: 'rented', quality: 'good', price, latency_ms: 300 };
const free = { ...answer, price: {} };
const messages = [{ role: 'user', content: 'Hi' }];
/** Far more than a busy machine delays a start. */
const deadlineMs = 20_000;
const deadlineUsd = 2;

let gateway: TestGateway | undefined;
afterEach(async () => {
  expect(gateway?.ledger.recover()).toBe(0);
  await gateway?.close();
  gateway = undefined;
});

const start = async (openAi: () => OpenAiReply, options: TestGatewayOptions = {}) => {
  gateway = await startTestGateway({ openAi, slots: { 'answer-1': answer }, ...options });
  return gateway;
};

// What the server answers is looked at as it comes.
// biome-ignore lint/suspicious/noExplicitAny: see above
type Json = any;

async function post({ url }: TestGateway, body: object, signal?: AbortSignal): Promise<{ status: number; body: Json }> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'orchestra', messages, ...body }),
    ...(signal ? { signal } : {}),
  });
  return { status: response.status, body: await response.json() };
}

/** The newest record, whole. */
async function lastRun({ client }: TestGateway): Promise<Json> {
  const { data }: Json = await client.get('/orchestra/runs');
  return client.get(`/orchestra/runs/${data[0].run_id}`);
}

/** A record is written when its run has ended, which is a little after the client left. */
async function onceWritten(open: TestGateway): Promise<Json> {
  for (;;) {
    const run = await lastRun(open).catch(() => undefined);
    if (run) return run;
    await sleep(5);
  }
}

const nano = (usd: number): number => Math.round(usd * 1e9);
/** What stands in the record for the model: its time, and the price of exactly that. */
function timeOf({ cost }: Json): number {
  const [line] = cost.by_model;
  expect(nano(line.cost)).toBe(line.duration_ms * nanoUsdPerMs);
  expect(nano(cost.total)).toBe(nano(line.cost));
  return line.duration_ms;
}

describe('a slot that is billed by the second', () => {
  const slowly = () => ({ ...replies.says('one ', 'two ', 'three'), chunkDelayMs: 40 });

  test('costs the time of its call, and shows the policy the price of what it usually takes', async () => {
    const open = await start(slowly);
    const { body } = await post(open, { preferences: { max_latency_ms: deadlineMs, max_cost_usd: deadlineUsd } });
    expect(body.choices[0].message.content).toBe('one two three');
    const run = await lastRun(open);
    expect(timeOf(run)).toBeGreaterThanOrEqual(80);
    expect(timeOf(run)).toBeLessThanOrEqual(Math.ceil(run.duration_ms) + 1);
    expect(nano(body.usage.cost)).toBe(nano(run.cost.total));
    expect(run.turns[0]).toMatchObject({ predicted: { cost_usd: 0.03 }, actual: { cost_usd: run.cost.total } });
  });

  test('is held at the price of the whole deadline: a limit below that does not admit it', async () => {
    const open = await start(slowly);
    const tooLittle = { max_latency_ms: deadlineMs, max_cost_usd: deadlineUsd / 2 };
    const refused = await post(open, { preferences: tooLittle });
    expect(refused).toMatchObject({ status: 422, body: { error: { param: 'preferences.max_cost_usd' } } });
    const withoutDeadline = await post(open, { preferences: { max_cost_usd: deadlineUsd } });
    expect(withoutDeadline.status).toBe(422);
    expect(open.openAi.requests).toHaveLength(0);
  });

  test('costs the time of all attempts of a call that fails', async () => {
    const open = await start(() => replies.serverError());
    expect((await post(open, { preferences: { max_latency_ms: deadlineMs } })).status).toBe(502);
    expect(open.openAi.requests.length).toBeGreaterThan(1);
    expect(timeOf(await lastRun(open))).toBeGreaterThan(0);
  });

  test('costs no more than was held when the deadline cuts it off', async () => {
    const open = await start(() => replies.silence);
    const limits = { max_latency_ms: 300, max_cost_usd: 0.03 };
    expect((await post(open, { preferences: limits })).status).toBe(504);
    const run = await lastRun(open);
    expect(timeOf(run)).toBeGreaterThan(0);
    expect(timeOf(run)).toBeLessThanOrEqual(300);
    expect(run.warnings.map(({ code }: Json) => code)).not.toContain('upstream_overrun');
  });

  test('costs the time until its client left', async () => {
    const open = await start(() => replies.silence);
    const leaving = new AbortController();
    const asked = post(open, {}, leaving.signal);
    await waitUntil(() => open.openAi.requests.length === 1, 'the call');
    leaving.abort();
    await expect(asked).rejects.toThrow();
    await open.openAi.aborted(1);
    const run = await onceWritten(open);
    expect(run).toMatchObject({ status: 'cancelled', cost: { estimated: true } });
    expect(timeOf(run)).toBeGreaterThan(0);
    expect(timeOf(run)).toBeLessThanOrEqual(run.duration_ms + 1);
  });
});

describe('a relay of a model that is billed by the second', () => {
  const relayed = { model: 'loopback/rented', max_tokens: 10 };

  test.each([false, true])('costs the time of its call (stream: %s)', async (stream) => {
    const open = await start(() => ({ ...replies.says('one ', 'two '), chunkDelayMs: 40, firstChunkDelayMs: 40 }));
    const preferences = { max_latency_ms: deadlineMs, max_cost_usd: deadlineUsd };
    const response = await fetch(`${open.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages, ...relayed, stream, preferences }),
    });
    expect(response.status).toBe(200);
    await response.text();
    expect(timeOf(await lastRun(open))).toBeGreaterThan(0);
  });

  test('ends with the longest run where no deadline is set, and is held at that', async () => {
    const config = { limits: { run_timeout_ms: 1_000 } };
    const open = await start(() => replies.silenceAfterHeaders, { config });
    const refused = await post(open, { ...relayed, stream: true, preferences: { max_cost_usd: 0.09 } });
    expect(refused).toMatchObject({
      status: 422,
      body: { error: { code: 'limits_unsatisfiable', details: { needed_usd: '0.10' } } },
    });
    expect(open.openAi.requests).toHaveLength(0);
    const ended = await post(open, { ...relayed, preferences: { max_cost_usd: 0.1 } });
    expect(ended).toMatchObject({ status: 504, body: { error: { code: 'deadline_exceeded' } } });
    expect(timeOf(await lastRun(open))).toBeLessThanOrEqual(1_000);
  });

  test('costs the time until its client left', async () => {
    const open = await start(() => replies.silence);
    const leaving = new AbortController();
    const asked = post(open, relayed, leaving.signal);
    await waitUntil(() => open.openAi.requests.length === 1, 'the call');
    leaving.abort();
    await expect(asked).rejects.toThrow();
    const run = await onceWritten(open);
    expect(run).toMatchObject({ status: 'cancelled', cost: { estimated: true } });
    expect(timeOf(run)).toBeGreaterThan(0);
  });

  test.each<[string, OpenAiReply, number]>([
    ['fails', replies.serverError(), 502],
    ['is refused', replies.invalid(), 400],
  ])('costs its time when it %s', async (_, reply, status) => {
    const open = await start(() => reply);
    expect((await post(open, relayed)).status).toBe(status);
    expect(timeOf(await lastRun(open))).toBeGreaterThan(0);
  });
});

test('a search source is billed for its own time, which is held as long as its patience lasts', async () => {
  const tavily = await startTavilyServer();
  const web = { kind: 'tavily', api_key: 'tvly-x', base_url: tavily.url, privacy: 'self_hosted', price };
  const open = await start(() => replies.says('wombats'), {
    slots: { 'search-1': { role: 'search', tools: ['web'], quality: 'the web', latency_ms: 10 }, 'answer-1': free },
    script: [{ role: 'search' }, { role: 'answer', slot: 'answer-1' }],
    config: { tools: { web } },
  });
  // A search is given up after 30 s, whatever the run's deadline.
  await post(open, { preferences: { max_cost_usd: 3 } });
  const { cost } = await lastRun(open);
  expect(cost.by_tool).toMatchObject([{ tool: 'web', calls: 1, cost: cost.total }]);
  expect(nano(cost.total)).toBe(cost.by_tool[0].duration_ms * nanoUsdPerMs);
  expect(cost.total).toBeGreaterThan(0);
  await post(open, { preferences: { max_cost_usd: 2.99 } });
  expect(tavily.requests).toHaveLength(1);
  await tavily.close();
});

const choice = replies.calls({ id: 'c1', name: 'answer', arguments: '{"model": "answer-2"}' });
test.each<[string, OpenAiReply, string]>([
  ['decides', choice, 'mind/router'],
  ['fails', replies.serverError(), 'estimate'],
])('a remote policy that %s is billed for its time', async (_, reply, decidedBy) => {
  const mind = await startOpenAiServer(() => reply);
  const experts = await startOpenAiServer();
  const upstream = { kind: 'openai', privacy: 'self_hosted' };
  const open = await start(() => replies.says('unused'), {
    decidedBy: 'configuration',
    slots: { 'answer-1': { ...free, upstream: 'experts' }, 'answer-2': { ...free, upstream: 'experts', model: 'two' } },
    config: {
      policy: { backend: 'remote', upstream: 'mind', model: 'router', price },
      upstreams: { mind: { ...upstream, base_url: mind.url }, experts: { ...upstream, base_url: experts.url } },
      relay: [],
    },
  });
  const limits = { max_latency_ms: deadlineMs, max_cost_usd: deadlineUsd };
  expect((await post(open, { preferences: limits })).status).toBe(200);
  expect(mind.requests.length).toBeGreaterThan(0);
  const { cost, turns } = await lastRun(open);
  expect(turns).toMatchObject([{ decided_by: decidedBy }]);
  const line = cost.by_model.find(({ model }: Json) => model === 'mind/router');
  expect(nano(line.cost)).toBe(line.duration_ms * nanoUsdPerMs);
  expect(line.cost).toBeGreaterThan(0);
  const asked = mind.requests.length;
  // The money that decides must cover the deadline; else the fallback decides for nothing.
  expect((await post(open, { preferences: { ...limits, max_cost_usd: deadlineUsd / 2 } })).status).toBe(200);
  expect(mind.requests).toHaveLength(asked);
  await Promise.all([mind.close(), experts.close()]);
});
