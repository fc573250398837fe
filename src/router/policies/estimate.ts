import { choiceProbabilities, expectedUtility, type UtilityOption } from '../../contract/expected-utility.ts';
import { toUsdNumber } from '../../cost/money.ts';
import { noUsage } from '../../cost/usage.ts';
import { privacyRank } from '../../preferences/privacy.ts';
import { selectorWeight } from '../../preferences/selectors.ts';
import type { TiltScales } from '../../preferences/tilt.ts';
import type { Weights } from '../../preferences/weights.ts';
import type { Candidate, Policy, PolicyInput, PolicyOpinion } from '../policy.ts';
import { cardBeliefs } from './card-beliefs.ts';

/** Softness of the choice in utility units; small, so that the best option nearly always leads. */
const temperature = 0.25;

/** One more turn is one more thing that can go wrong: at equal utility the shorter path wins, at any weights. */
const dislikeOfTurn = 0.05;

/**
 * The policy without a language model: expected utility from cards, exact prices and what the problem looks like. The
 * default until trained weights are there, and the fallback whenever a policy is unavailable.
 */
export function createEstimatePolicy(scales: TiltScales): Policy {
  return {
    name: 'estimate',
    backend: 'estimate',
    contract: 'slots-1',
    bound: noUsage,
    decide: async (input) => estimate(input, scales),
  };
}

function estimate(input: PolicyInput, scales: TiltScales): PolicyOpinion {
  const slots = new Map(input.candidates.map(({ slot }) => [slot.id, slot]));
  const options = input.candidates.map((candidate) => optionOf(candidate, input.weights));
  const beliefs = cardBeliefs(input.problem, input.evidence, slots);
  const outcomes = expectedUtility(options, beliefs, input.weights, scales, input.turnsLeft > 1);
  const utilities = outcomes.map(
    ({ utility }, index) => utility - (options[index]?.kind === 'prepare' ? dislikeOfTurn : 0),
  );
  return {
    probabilities: choiceProbabilities(utilities, temperature),
    pRight: outcomes.map(({ pRight }) => pRight),
    weighted: true,
    usage: noUsage,
  };
}

function optionOf({ role, slot, expectedCost }: Candidate, weights: Weights): UtilityOption {
  return {
    id: slot.id,
    kind: role === 'answer' ? 'answer' : 'prepare',
    // An unknown price is not admissible under a cost limit; without one it must not look like a bargain.
    costUsd: expectedCost === undefined ? 1 : toUsdNumber(expectedCost),
    latencyMs: slot.latencyMs,
    privacy: privacyRank(slot.privacy),
    selectorWeight: selectorWeight(slot, weights),
  };
}
