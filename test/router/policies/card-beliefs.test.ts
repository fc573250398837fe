import { expect, test } from 'vitest';
import { noEvidence } from '../../../src/contract/evidence.ts';
import { zeroUsd } from '../../../src/cost/money.ts';
import { cardBeliefs } from '../../../src/router/policies/card-beliefs.ts';
import type { Needs, ProblemReading } from '../../../src/router/policies/problem-reading.ts';
import { noSkillCounts } from '../../../src/router/policies/skills.ts';
import type { Candidate, PolicyInput } from '../../../src/router/policy.ts';
import { aSlot } from '../../support/slots.ts';

const answer = aSlot({ id: 'answer-1', skills: { math: 0.8 } });
const search = aSlot({ id: 'search-1', role: 'search' });
const calculation = aSlot({ id: 'enhance-reasoning-1', role: 'enhance_reasoning' });
const candidateFor = (slot: typeof answer): Candidate => ({
  id: slot.id,
  role: slot.role,
  slot,
  delivers: undefined,
  expectedLatencyMs: 0,
  expectedCost: zeroUsd,
});

function chanceOf(needs: Needs, ...slots: (typeof answer)[]): number {
  const input: PolicyInput = {
    problem: '',
    conversation: '',
    evidence: noEvidence,
    candidates: slots.map(candidateFor),
    weights: { quality: 1, cost: 0, latency: 0, privacy: 0, tools: {} },
    statedWeights: [],
    instruction: undefined,
    turn: 1,
    turnsLeft: 3,
    timeLeftMs: 60_000,
    seed: 1,
    askedBy: 'alice',
    privateTo: undefined,
    signal: new AbortController().signal,
  };
  const reading: ProblemReading = {
    domains: new Map([['math', 1]]),
    shift: 0,
    levels: [0],
    levelWeights: [1],
    needs,
    coincidence: 0.2,
    comparable: 0,
  };
  return cardBeliefs(input, reading, noSkillCounts).chancesOf(answer)[0] ?? Number.NaN;
}

const nothing: Needs = { facts: 0, documents: 0, calculation: 0 };

test.each([
  ['facts', search],
  ['documents', search],
  ['calculation', calculation],
] as const)(
  'missing %s speak against an answer where somebody could get them, and not where nobody can',
  (need, slot) => {
    const needing = { ...nothing, [need]: 1 };
    expect(chanceOf(needing, answer)).toBeCloseTo(0.8, 9);
    expect(chanceOf(needing, answer, slot)).toBeLessThan(0.6);
    expect(chanceOf(nothing, answer, slot)).toBeCloseTo(0.8, 9);
  },
);
