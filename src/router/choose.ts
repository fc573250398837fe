import { toUsdNumber } from '../cost/money.ts';
import { privacyRank } from '../preferences/privacy.ts';
import { selectorWeight } from '../preferences/selectors.ts';
import { type TiltScales, tilt } from '../preferences/tilt.ts';
import type { Weights } from '../preferences/weights.ts';
import type { Candidate, DecisionRole, PolicyOpinion } from './policy.ts';
import type { CandidateRecord } from './run.ts';

/** A price that is unknown must not look like a bargain. */
const unknownCostUsd = 1;

export interface Choice<Option extends Candidate = Candidate> {
  readonly candidate: Option;
  readonly probability: number;
  readonly records: readonly CandidateRecord[];
}

/**
 * From a policy's opinion to one choice. An opinion that already weighs prices stands: the most probable candidate wins.
 * Otherwise weights tilt the probabilities within each role, the role with the most mass wins, and in it the best slot.
 */
export function choose<Option extends Candidate>(
  candidates: readonly Option[],
  opinion: PolicyOpinion,
  weights: Weights,
  scales: TiltScales,
): Choice<Option> {
  const records = candidates.map((candidate, index) => recordOf(candidate, opinion, index));
  const tilted = opinion.weighted ? records : tiltWithinRoles(candidates, records, weights, scales);
  const role = opinion.weighted ? undefined : heaviestRole(tilted);
  const best = tilted
    .map((record, index) => ({ record, candidate: candidates[index] }))
    .filter(({ record }) => role === undefined || record.role === role)
    .reduce((left, right) => (right.record.probability > left.record.probability ? right : left));
  if (!best.candidate) throw new Error('a policy was asked without candidates');
  return { candidate: best.candidate, probability: best.record.probability, records: tilted };
}

function recordOf(
  { id, role, expectedCost, expectedLatencyMs }: Candidate,
  opinion: PolicyOpinion,
  index: number,
): CandidateRecord {
  const probability = opinion.probabilities[index] ?? 0;
  const pRight = opinion.pRight?.[index];
  return {
    role,
    slot: id,
    probability,
    policyProbability: probability,
    ...(pRight === undefined ? {} : { pRight }),
    expectedCost,
    expectedLatencyMs,
  };
}

function tiltWithinRoles(
  candidates: readonly Candidate[],
  records: readonly CandidateRecord[],
  weights: Weights,
  scales: TiltScales,
): CandidateRecord[] {
  const result = [...records];
  for (const role of new Set(records.map((record) => record.role))) {
    const members = records.flatMap((record, index) => {
      const candidate = candidates[index];
      return record.role === role && candidate ? [{ record, candidate, index }] : [];
    });
    const facts = members.map(({ record, candidate }) => ({
      probability: record.policyProbability,
      costUsd: candidate.expectedCost === undefined ? unknownCostUsd : toUsdNumber(candidate.expectedCost),
      latencyMs: candidate.expectedLatencyMs,
      // A delivery shows nobody anything new.
      privacy: candidate.delivers ? 1 : privacyRank(candidate.slot.privacy),
      selectorWeight: selectorWeight(candidate.slot, weights),
    }));
    for (const [at, probability] of tilt(facts, weights, scales).entries()) {
      const member = members[at];
      if (member) result[member.index] = { ...member.record, probability };
    }
  }
  return result;
}

function heaviestRole(records: readonly CandidateRecord[]): DecisionRole | undefined {
  const mass = new Map<DecisionRole, number>();
  for (const { role, policyProbability } of records) mass.set(role, (mass.get(role) ?? 0) + policyProbability);
  return [...mass].sort((left, right) => right[1] - left[1])[0]?.[0];
}
