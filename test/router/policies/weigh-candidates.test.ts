import { expect, test } from 'vitest';
import { loadContract } from '../../../src/contract/load.ts';
import { zeroUsd } from '../../../src/cost/money.ts';
import { type Beliefs, weighCandidates } from '../../../src/router/policies/weigh-candidates.ts';
import type { Candidate, PolicyInput } from '../../../src/router/policy.ts';
import { aSlot } from '../../support/slots.ts';

const rules = { ...loadContract('slots-2'), temperature: 0.25 };
const beliefs: Beliefs = {
  prior: { levels: [1], coincidence: 0.2 },
  comparable: 0,
  chancesOf: () => [0.9],
  gainOf: () => 1,
};
const outside = aSlot({ id: 'answer-1', privacy: 'any' });
const attempt = { id: 'attempt-1', slot: 'answer-1', text: 'a long story' };
const candidate = (part: Partial<Candidate>): Candidate => ({
  id: 'answer-1',
  role: 'answer',
  slot: outside,
  delivers: undefined,
  expectedLatencyMs: 0,
  expectedCost: zeroUsd,
  ...part,
});
const inputOf = (candidates: readonly Candidate[], privacy: number): PolicyInput => ({
  problem: 'Tell me a story.',
  conversation: '',
  evidence: { documents: [], codeRuns: [], attempts: [attempt] },
  candidates,
  weights: { quality: 1, cost: 0, latency: 0, privacy, tools: {} },
  statedWeights: [],
  instruction: undefined,
  turn: 2,
  turnsLeft: 3,
  timeLeftMs: 60_000,
  seed: 1,
  askedBy: 'alice',
  privateTo: undefined,
  signal: new AbortController().signal,
});

test('handing out an attempt shows nobody anything new, so privacy does not speak against it', () => {
  const local = candidate({ id: 'answer-2', slot: aSlot({ id: 'answer-2', privacy: 'local' }) });
  const delivery = candidate({ id: 'attempt-1', delivers: attempt });
  const { probabilities } = weighCandidates(inputOf([delivery, local], 1), beliefs, rules);
  expect(probabilities).toEqual([expect.closeTo(0.5, 9), expect.closeTo(0.5, 9)]);
});

test('an unknown price is no bargain', () => {
  const input = inputOf([candidate({ id: 'answer-2' }), candidate({ id: 'answer-3', expectedCost: undefined })], 0);
  const weights = { ...input.weights, cost: 0.5 };
  const { probabilities } = weighCandidates({ ...input, weights }, beliefs, rules);
  expect(probabilities[0]).toBeGreaterThan(0.99);
});

test('an attempt by somebody who is gone may still be right', () => {
  const delivery = candidate({ id: 'attempt-1', delivers: attempt, slot: aSlot({ id: 'answer-9' }) });
  expect(weighCandidates(inputOf([delivery], 0), beliefs, rules).pRight).toEqual([0.5]);
});
