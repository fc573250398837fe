import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { nanoUsd } from '../../src/cost/money.ts';
import { noUsage } from '../../src/cost/usage.ts';
import { OrchestraError } from '../../src/errors.ts';
import { builtInProfiles } from '../../src/preferences/profiles.ts';
import { mergePreferences } from '../../src/preferences/request.ts';
import type { Policy } from '../../src/router/policy.ts';
import type { RunRecord, RunSpec } from '../../src/router/run.ts';
import { patience, startTestGateway, type TestGateway } from '../support/gateway.ts';
import type { OpenAiReply } from '../support/loopback/openai-replies.ts';

/*
 * Many runs at once on one key's day, each with a budget of its own, with attempts, failures of every kind and clients
 * that leave. Both answer slots cost 1 USD a million tokens in and 4 out and 100 nano-dollars a millisecond, a search 0.008:
 * the loopback servers know to the nano-dollar what they billed, run by run, but for the time, which the record tells.
 */

const price = { input: 1, output: 4, per_second: '0.0001' };
const nanoUsdPerMs = 100;
/** What a call may take is held too: a thousandth of a dollar. */
const deadlineMs = 10_000;
const answer = { role: 'answer', upstream: 'loopback', quality: 'good', price, latency_ms: 10, max_output: 2000 };
const searchPrice = 8_000_000;
const dayLimit = 40_000_000;

/** What the upstream does with the nth call of a run. */
type Behaviour = 'answers' | 'fails' | 'limits' | 'breaks' | 'garbles';
const plan = fc.record({
  behaviours: fc.array(
    fc.constantFrom<Behaviour[]>('answers', 'answers', 'answers', 'fails', 'limits', 'breaks', 'garbles'),
    {
      minLength: 6,
      maxLength: 6,
    },
  ),
  promptTokens: fc.integer({ min: 1, max: 60 }),
  completionTokens: fc.integer({ min: 1, max: 2500 }),
  maxCostMicroUsd: fc.option(fc.integer({ min: 500, max: 30_000 }), { nil: undefined }),
  streaming: fc.boolean(),
  leavesAfterMs: fc.option(fc.integer({ min: 0, max: 15 }), { nil: undefined, freq: 3 }),
  preferred: fc.constantFrom('search', 'attempt', 'answer'),
});
type Plan = typeof plan extends fc.Arbitrary<infer Value> ? Value : never;

const plans = new Map<string, Plan>();
const calls = new Map<string, number>();
const billed = new Map<string, number>();

function reply(body: Record<string, unknown>): OpenAiReply {
  const runId = /run_\d+/.exec(JSON.stringify(body['messages']))?.[0] ?? '';
  const current = plans.get(runId);
  const call = calls.get(runId) ?? 0;
  calls.set(runId, call + 1);
  const behaviour = current?.behaviours[call] ?? 'answers';
  if (behaviour === 'fails') return { kind: 'json', status: 500, body: { error: { message: 'no' } } };
  if (behaviour === 'limits')
    return { kind: 'json', status: 429, body: { error: { message: 'slow' } }, headers: { 'retry-after': '0' } };
  const completion = Math.min(current?.completionTokens ?? 1, Number(body['max_tokens']));
  const usage = { prompt_tokens: current?.promptTokens ?? 1, completion_tokens: completion };
  billed.set(runId, (billed.get(runId) ?? 0) + usage.prompt_tokens * 1000 + completion * 4000);
  const text = ['one ', 'two ', 'three'];
  if (behaviour === 'breaks') return { kind: 'completion', text, usage, cutAfterChunks: 2 };
  if (behaviour === 'garbles') return { kind: 'completion', text, usage, insert: { afterChunks: 2, data: '{"half' } };
  return { kind: 'completion', text, usage, chunkDelayMs: 3 };
}

/** Takes the kind of step that the run's plan prefers, as long as it is open. */
const policy: Policy = {
  name: 'planned',
  backend: 'scripted',
  contract: 'slots-2',
  bound: noUsage,
  decide: async ({ candidates, problem, turn }) => {
    const wanted = turn < 4 ? plans.get(problem)?.preferred : 'answer';
    const chosen = Math.max(
      0,
      candidates.findIndex(({ role }) => role === wanted),
    );
    return { probabilities: candidates.map((_, index) => (index === chosen ? 1 : 0)), weighted: true, usage: noUsage };
  },
};

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway({
    policy,
    // An upstream that rests is not asked: after the first batches there would be nothing left to count.
    patience: { ...patience, failuresToRest: Number.POSITIVE_INFINITY },
    openAi: ({ body }) => reply(body),
    slots: {
      'search-1': { role: 'search', tools: ['web'], quality: 'the web', latency_ms: 10 },
      'answer-1': { ...answer, model: 'one' },
      'answer-2': { ...answer, model: 'two' },
    },
  });
});
afterAll(() => gateway.close());

let counter = 0;
async function execute(current: Plan, keyName: string): Promise<RunRecord | undefined> {
  const runId = `run_${++counter}`;
  plans.set(runId, current);
  const leaving = new AbortController();
  if (current.leavesAfterMs !== undefined) setTimeout(() => leaving.abort(), current.leavesAfterMs);
  const limit = current.maxCostMicroUsd === undefined ? {} : { max_cost_usd: current.maxCostMicroUsd / 1e6 };
  const spec: RunSpec = {
    runId,
    keyName,
    requestedModel: 'orchestra',
    messages: [{ role: 'user', content: runId }],
    needs: { input: ['text'], clientTools: false, jsonSchema: false, contextTokens: 2 },
    preferences: mergePreferences(
      [{ source: 'body', preferences: { ...limit, max_latency_ms: deadlineMs } }],
      builtInProfiles,
      {
        max_cost_usd_per_day: dayLimit / 1e9,
      },
    ),
    maxAnswerTokens: undefined,
    answerOptions: {},
    streaming: current.streaming,
    seed: 1,
    signal: leaving.signal,
  };
  try {
    const run = gateway.orchestrator.run(spec);
    for (;;) {
      const step = await run.next();
      if (step.done) return step.value;
    }
  } catch (error) {
    if (error instanceof OrchestraError) return undefined;
    throw error;
  }
}

test('no budget is passed, nothing stays on hold, and the books equal the bills', async () => {
  let [runs, exact, answered, left, timed] = [0, 0, 0, 0, 0];
  await fc.assert(
    fc.asyncProperty(fc.array(plan, { minLength: 2, maxLength: 12 }), async (batch) => {
      const keyName = `key_${counter}`;
      const records = (await Promise.all(batch.map((current) => execute(current, keyName)))).filter(
        (r) => r !== undefined,
      );
      const day = gateway.ledger.openBudget({
        runId: 'look',
        keyName,
        maxCost: undefined,
        maxCostPerDay: nanoUsd(dayLimit),
      });
      const spent = records.reduce((sum, { cost }) => sum + cost, 0);
      expect(spent).toBeLessThanOrEqual(dayLimit);
      // What is not spent is free again: no hold was left behind.
      expect(dayLimit - (day.remaining() ?? 0)).toBe(spent);
      for (const record of records) {
        runs += 1;
        expect(record.cost).toBeLessThanOrEqual(record.preferences.limits.maxCost ?? dayLimit);
        expect(record.costKnown).toBe(true);
        if (record.status === 'cancelled') left += 1;
        if (record.lines.some(({ estimated }) => estimated) || record.status === 'cancelled') continue;
        const searches = record.lines.find(({ meter }) => meter === 'tool:web')?.usage.calls ?? 0;
        const workedMs = record.lines.reduce(
          (sum, { kind, usage }) => sum + (kind === 'model' ? usage.durationMs : 0),
          0,
        );
        timed += workedMs;
        const tokens = billed.get(record.runId) ?? 0;
        expect(record.cost).toBe(tokens + workedMs * nanoUsdPerMs + searches * searchPrice);
        exact += 1;
        if (tokens > 0) answered += 1;
      }
    }),
    { numRuns: 100 },
  );
  expect(gateway.ledger.recover()).toBe(0);
  // The property would hold of nothing at all, too.
  expect(runs).toBeGreaterThan(150);
  expect(exact).toBeGreaterThan(60);
  expect(answered).toBeGreaterThan(30);
  expect(left).toBeGreaterThan(20);
  expect(timed).toBeGreaterThan(0);
  console.info(
    `money: ${runs} runs, ${exact} compared to the nano-dollar, ${answered} of them billed, ${left} clients left`,
  );
}, 120_000);
