import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { noEvidence } from '../../src/contract/evidence.ts';
import { loadBeliefs } from '../../src/contract/load.ts';
import { zeroUsd } from '../../src/cost/money.ts';
import { noUsage } from '../../src/cost/usage.ts';
import type { InferenceEngine, JudgeRequest } from '../../src/inference/engine.ts';
import { startLlamaEngine } from '../../src/inference/llama-engine.ts';
import { createJudgePolicy } from '../../src/router/policies/judge.ts';
import type { Candidate, Policy, PolicyInput } from '../../src/router/policy.ts';
import { writeModel } from '../support/gguf/tiny-model.ts';
import { aSlot } from '../support/slots.ts';
import { attentive, engineOptions } from './tiny-models.ts';

/** What a judge asks its engine, turn after turn of a run. */
const file = writeModel(attentive());
const contract = loadBeliefs();
let engine: InferenceEngine;
let asked: JudgeRequest[];
let policy: Policy;
beforeAll(async () => {
  engine = await startLlamaEngine(engineOptions(file.path));
});
afterAll(async () => {
  await engine.close();
  file.remove();
});
beforeEach(() => {
  asked = [];
  policy = createJudgePolicy({ name: 'judge', engine: overheard(), contract });
});

/** The engine itself, with its questions written down. */
const overheard = (): InferenceEngine => ({
  ...engine,
  judge: (request) => {
    asked.push(request);
    return engine.judge(request);
  },
});

const candidate = (id: string, quality: string, part: Partial<Candidate> = {}): Candidate => ({
  id,
  role: 'answer',
  slot: aSlot({ id, quality }),
  delivers: undefined,
  expectedLatencyMs: 1000,
  expectedCost: zeroUsd,
  ...part,
});
const candidates = [candidate('answer-1', 'strong'), candidate('answer-2', 'weak')];

const turnOf = (signal: AbortSignal, part: Partial<PolicyInput> = {}): PolicyInput => ({
  problem: 'What is 6 × 7?',
  conversation: '',
  evidence: noEvidence,
  candidates,
  weights: { quality: 0.5, cost: 0.25, latency: 0.25, privacy: 0, tools: {} },
  statedWeights: [],
  instruction: undefined,
  turn: 1,
  turnsLeft: 4,
  timeLeftMs: 60_000,
  seed: 1,
  askedBy: 'alice',
  privateTo: undefined,
  signal,
  ...part,
});
const aRun = (): AbortSignal => new AbortController().signal;

test('a run asks about each card once, and attempts change no question', async () => {
  const run = aRun();
  const first = await policy.decide(turnOf(run));
  expect(first.usage).toMatchObject({ calls: 1, outputTokens: 0 });
  const attempts = [{ id: 'attempt-1', slot: 'answer-1', text: '42' }];
  const evidence = { ...noEvidence, attempts };
  const second = await policy.decide(turnOf(run, { turn: 2, evidence }));
  expect(second.usage.calls).toBe(0);
  expect(asked).toHaveLength(1);
  await policy.decide(turnOf(run, { turn: 3, candidates: [...candidates, candidate('answer-3', 'good')] }));
  expect(asked.map(({ questions }) => questions.length)).toEqual([2, 1]);
});

test('documents are read, so every card is asked about anew', async () => {
  const run = aRun();
  const before = await policy.decide(turnOf(run));
  const documents = [{ text: 'Six times seven is forty-two.', source: 'docs', privacy: 'any' as const }];
  const after = await policy.decide(turnOf(run, { turn: 2, evidence: { ...noEvidence, documents } }));
  expect(asked.map(({ questions, inProgress }) => [questions.length, inProgress])).toEqual([
    [2, false],
    [2, true],
  ]);
  expect(after.pRight).not.toEqual(before.pRight);
});

test('runs of a key share what they asked, and one card more is one question more', async () => {
  const one = await policy.decide(turnOf(aRun()));
  const other = await policy.decide(turnOf(aRun(), { candidates: [...candidates, candidate('answer-3', 'good')] }));
  expect(asked.map(({ questions }) => questions.length)).toEqual([2, 1]);
  expect(other.pRight?.slice(0, 2)).toEqual(one.pRight);
  expect(other.usage.calls).toBe(1);
  expect((await policy.decide(turnOf(aRun()))).usage).toEqual(noUsage);
});

test('no key can tell what another has asked', async () => {
  await policy.decide(turnOf(aRun()));
  const other = await policy.decide(turnOf(aRun(), { askedBy: 'bob' }));
  expect(asked).toHaveLength(2);
  expect(other.usage.calls).toBe(1);
});

test('what a private run asked no other run knows, not even of the same key, nor does it know what others asked', async () => {
  await policy.decide(turnOf(aRun()));
  const own = aRun();
  await policy.decide(turnOf(own, { privateTo: 'alice' }));
  await policy.decide(turnOf(own, { privateTo: 'alice', turn: 2 }));
  await policy.decide(turnOf(aRun(), { privateTo: 'alice' }));
  expect(asked.map(({ privateTo }) => privateTo)).toEqual([undefined, 'alice', 'alice']);
  await policy.decide(turnOf(aRun(), { problem: 'Mine alone?', privateTo: 'alice' }));
  await policy.decide(turnOf(aRun(), { problem: 'Mine alone?' }));
  expect(asked).toHaveLength(5);
});

test('other weights are asked anew', async () => {
  let weightsHash = 'first';
  const info = () => ({ ...engine.info, weightsHash });
  const swapped = Object.defineProperty(overheard(), 'info', { get: info });
  policy = createJudgePolicy({ name: 'judge', engine: swapped, contract });
  for (const hash of ['first', 'first', 'second', 'first']) {
    weightsHash = hash;
    await policy.decide(turnOf(aRun()));
  }
  expect(asked).toHaveLength(2);
});

test('grades of weights that were swapped in meanwhile are not kept under the old ones', async () => {
  let weightsHash = 'first';
  const swapping: InferenceEngine = {
    ...overheard(),
    judge: (request) => {
      weightsHash = 'second';
      return overheard().judge(request);
    },
  };
  Object.defineProperty(swapping, 'info', { get: () => ({ ...engine.info, weightsHash }) });
  policy = createJudgePolicy({ name: 'judge', engine: swapping, contract });
  await policy.decide(turnOf(aRun()));
  weightsHash = 'first';
  await policy.decide(turnOf(aRun()));
  expect(asked).toHaveLength(2);
});

test('every question of a private run says whose it is', async () => {
  await policy.decide(turnOf(aRun(), { privateTo: 'alice', instruction: 'Fast, please.' }));
  expect(asked.map(({ privateTo }) => privateTo)).toEqual(['alice', 'alice']);
});

test('numbers for every axis leave nothing to read in a wish', async () => {
  const statedWeights = ['quality', 'cost', 'latency', 'privacy'] as const;
  const opinion = await policy.decide(turnOf(aRun(), { statedWeights, instruction: 'Fast, please.' }));
  expect(opinion.weights).toBeUndefined();
  expect(asked).toHaveLength(1);
});

test('a wish is read once a run, and its weights stay', async () => {
  const run = aRun();
  const first = await policy.decide(turnOf(run, { instruction: 'Fast, please.' }));
  const weights = first.weights ?? turnOf(run).weights;
  const second = await policy.decide(turnOf(run, { turn: 2, weights, instruction: 'Fast, please.' }));
  expect(second.weights).toEqual(first.weights);
  expect(asked).toHaveLength(2);
});

test('feedback outweighs what was read in a card', async () => {
  const judge = (right: number, wrong: number) =>
    createJudgePolicy({
      name: 'judge',
      engine,
      contract,
      skillCounts: { find: (model) => (model === 'loopback/answer-1' ? { right, wrong } : undefined) },
    }).decide(turnOf(aRun()));
  const [praised, blamed, silent] = [await judge(300, 0), await judge(0, 300), await judge(0, 0)];
  expect(praised.pRight?.[0]).toBeGreaterThan(0.85);
  expect(blamed.pRight?.[0]).toBeLessThan(0.15);
  expect(praised.pRight?.[1]).toBe(silent.pRight?.[1]);
});

test('a search is worth what its grade says, at most as much as answers can gain', async () => {
  const search = candidate('search-1', 'the web', { role: 'search' });
  const slot = { ...search.slot, role: 'search' as const };
  const opinion = await policy.decide(turnOf(aRun(), { candidates: [...candidates, { ...search, slot }] }));
  const [best = 0, other = 0, searched = 0] = opinion.pRight ?? [];
  expect(searched).toBeGreaterThanOrEqual(Math.max(best, other));
  expect(searched).toBeLessThanOrEqual(Math.min(1, (contract.gains.at(-1) ?? 0) * Math.max(best, other)));
});

test('one who leaves stops the questions', async () => {
  const leaving = new AbortController();
  const deciding = policy.decide(turnOf(leaving.signal));
  leaving.abort();
  await expect(deciding).rejects.toMatchObject({ name: 'AbortError' });
});
