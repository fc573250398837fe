import { APIError } from 'openai';
import { afterEach, expect, test } from 'vitest';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import type { OpenAiReply } from '../support/loopback/openai-replies.ts';
import { costOf, recordOf, reportOf } from './report.ts';

/** What a limit of money does to a run, from the outside. */
let gateway: TestGateway | undefined;
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
});
const start = async (options: TestGatewayOptions): Promise<TestGateway> => {
  gateway = await startTestGateway(options);
  return gateway;
};

const searches = [{ role: 'search' }, { role: 'answer', slot: 'answer-1' }] as const;
const requestWith = (preferences: object) => ({
  model: 'orchestra',
  messages: [{ role: 'user' as const, content: 'What is loopback?' }],
  preferences: { explain: 'full', ...preferences },
});

async function failureOf({ client }: TestGateway, preferences: object): Promise<APIError> {
  try {
    await client.chat.completions.create(requestWith(preferences));
  } catch (error) {
    if (error instanceof APIError) return error;
    throw error;
  }
  throw new Error('nothing failed');
}

test('a budget too small for search and answer leaves the search out and says so', async () => {
  const { client, tavily } = await start({ script: searches });
  const answer = await client.chat.completions.create(requestWith({ max_cost_usd: 0.008 }));
  const report = reportOf(answer);
  expect(report.status).toBe('limited');
  expect(report.turns.map(({ role }) => role)).toEqual(['answer']);
  expect(report.turns[0]?.ruled_out).toContainEqual({
    slot: 'search-1',
    reason: 'not affordable beside the answer that must follow',
  });
  expect(costOf(answer)).toBeLessThanOrEqual(0.008);
  expect(tavily.requests).toHaveLength(0);
});

test.each([0.0095, 0.012, 0.02])('a run under %f USD never costs more, whatever its experts write', async (limit) => {
  const greedy = ({ body }: { body: Record<string, unknown> }): OpenAiReply => ({
    kind: 'completion',
    text: ['words'],
    finishReason: 'length',
    usage: { prompt_tokens: 400, completion_tokens: Number(body['max_tokens']) },
  });
  const { client } = await start({ script: searches, openAi: greedy });
  const answer = await client.chat.completions.create(requestWith({ max_cost_usd: limit }));
  expect(reportOf(answer).turns.map(({ role }) => role)).toEqual(['search', 'answer']);
  expect(costOf(answer)).toBeLessThanOrEqual(limit);
  expect(costOf(answer)).toBeGreaterThan(0.008);
});

test('a budget below the cheapest answer is 422 with the amount that is needed', async () => {
  const tight = await start({});
  const error = await failureOf(tight, { max_cost_usd: 0.00001 });
  expect([error.status, error.code, error.param]).toEqual([422, 'limits_unsatisfiable', 'preferences.max_cost_usd']);
  const needed = Number(/needs up to (0\.\d+)/.exec(error.message)?.[1]);
  expect(tight.openAi.requests).toHaveLength(0);
  const answer = await tight.client.chat.completions.create(requestWith({ max_cost_usd: needed }));
  expect(costOf(answer)).toBeLessThanOrEqual(needed);
});

test('with on_limit error a budget that leaves no room for a step is 402, not to be retried', async () => {
  const strict = await start({ script: searches });
  const error = await failureOf(strict, { max_cost_usd: 0.008, on_limit: 'error' });
  expect([error.status, error.code]).toEqual([402, 'insufficient_quota']);
  expect(error.headers?.get('x-should-retry')).toBe('false');
  expect(strict.openAi.requests).toHaveLength(0);
  const record = await recordOf(strict.client, error.headers?.get('x-orchestra-run-id') ?? '');
  expect(record).toMatchObject({ status: 'failed', cost: { total: 0 } });
});

test('a day that is spent is 402 with what is left, and another key still works', async () => {
  const key = (name: string, max_cost_usd_per_day: number) => ({
    name,
    env: name.toUpperCase(),
    ceiling: { max_cost_usd_per_day },
  });
  const shared = await start({
    environment: { POOR: 'sk-poor', RICH: 'sk-rich' },
    config: { server: { auth: 'keys', keys: [key('poor', 0.001), key('rich', 5)] } },
  });
  const asKey = (apiKey: string) => ({ client: shared.client.withOptions({ apiKey }) });
  const error = await failureOf({ ...shared, ...asKey('sk-poor') }, { tools: { allow: ['answer-1'] } });
  expect([error.status, error.code]).toEqual([402, 'insufficient_quota']);
  expect(error.message).toContain('0.001 USD more today');
  const { response } = await asKey('sk-rich').client.chat.completions.create(requestWith({})).withResponse();
  expect(Number(response.headers.get('x-orchestra-budget-remaining-usd'))).toBeLessThan(5);
});
