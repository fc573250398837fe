import {
  choiceProbabilities,
  expectedUtility,
  type SearchState,
  type UtilityOption,
} from '../../contract/expected-utility.ts';
import type { Contract } from '../../contract/schema.ts';
import { toUsdNumber } from '../../cost/money.ts';
import { noUsage } from '../../cost/usage.ts';
import { privacyRank } from '../../preferences/privacy.ts';
import { selectorWeight } from '../../preferences/selectors.ts';
import type { Slot } from '../../preferences/slot.ts';
import type { Candidate, Policy, PolicyInput, PolicyOpinion } from '../policy.ts';
import { chancesOf, evidenceShare, gainOf, madeAttempts } from './beliefs.ts';
import { type ProblemReader, type ProblemReading, readByCues } from './problem-reading.ts';
import { domainsNamed, noSkillCounts, type SkillCounts } from './skills.ts';

export interface EstimateOptions {
  readonly contract: Pick<Contract, 'name' | 'tilt' | 'budgets'>;
  /** Words alone where there is no embedding. */
  readonly readProblem?: ProblemReader;
  readonly skillCounts?: SkillCounts;
}

/** Softness of the choice in utility units; small, so that the best option nearly always leads. */
const temperature = 0.25;
/** An unknown price is not admissible under a cost limit; without one it must not look like a bargain. */
const unknownCostUsd = 1;
/** Of somebody who is not among the candidates any more. */
const unknownChance = 0.5;

/**
 * The policy without a language model: expected utility from cards, exact prices and what the problem looks like. The
 * default until trained weights are there, and the fallback whenever a policy is unavailable.
 */
export function createEstimatePolicy(options: EstimateOptions): Policy {
  const { contract, readProblem = readByCues, skillCounts = noSkillCounts } = options;
  return {
    name: 'estimate',
    backend: 'estimate',
    contract: contract.name,
    bound: noUsage,
    decide: async (input) => {
      const slots = [...new Set(input.candidates.map(({ slot }) => slot))];
      const reading = await readProblem(input.problem, domainsNamed(slots), input.signal);
      return estimate(input, reading, contract, skillCounts);
    },
  };
}

function estimate(
  input: PolicyInput,
  reading: ProblemReading,
  { tilt, budgets }: EstimateOptions['contract'],
  counts: SkillCounts,
): PolicyOpinion {
  const left = evidenceShare(reading, input);
  const chancesFor = (slot: Slot) => chancesOf(slot, reading, counts, left);
  const { coincidence, comparable, levelWeights } = reading;
  const state: SearchState = {
    prior: { levels: levelWeights, coincidence },
    attempts: madeAttempts(
      input,
      chancesFor,
      levelWeights.map(() => unknownChance),
    ),
    comparable,
    turnsLeft: input.turnsLeft,
    attemptsLeft: budgets.attempts - input.evidence.attempts.length,
  };
  const options = input.candidates.map((candidate): UtilityOption => {
    const price = priceOf(candidate, input);
    const { role, slot, delivers } = candidate;
    if (delivers) return { ...price, kind: 'deliver' };
    if (role === 'answer' || role === 'attempt') return { ...price, kind: role, chances: chancesFor(slot) };
    return { ...price, kind: 'prepare', gain: gainOf(candidate, reading, input, counts) };
  });
  const outcomes = expectedUtility(options, state, input.weights, tilt);
  return {
    probabilities: choiceProbabilities(
      outcomes.map(({ utility }) => utility),
      temperature,
    ),
    pRight: outcomes.map(({ pRight }) => pRight),
    weighted: true,
    domains: reading.domains,
    usage: noUsage,
  };
}

const priceOf = ({ id, slot, expectedCost, expectedLatencyMs }: Candidate, { weights }: PolicyInput) => ({
  id,
  costUsd: expectedCost === undefined ? unknownCostUsd : toUsdNumber(expectedCost),
  latencyMs: expectedLatencyMs,
  privacy: privacyRank(slot.privacy),
  selectorWeight: selectorWeight(slot, weights),
});
