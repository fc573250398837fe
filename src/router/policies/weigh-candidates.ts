import { finalAnswer } from '../../contract/agree.ts';
import type { Chances, ProblemPrior } from '../../contract/agreement.ts';
import {
  choiceProbabilities,
  expectedUtility,
  type MadeAttempt,
  type UtilityOption,
} from '../../contract/expected-utility.ts';
import type { SharedTexts } from '../../contract/schema.ts';
import { toUsdNumber } from '../../cost/money.ts';
import { privacyRank } from '../../preferences/privacy.ts';
import { selectorWeight } from '../../preferences/selectors.ts';
import type { Slot } from '../../preferences/slot.ts';
import type { Candidate, PolicyInput, PolicyOpinion } from '../policy.ts';

/** What is believed of one turn, before prices, waits and weights are looked at. */
export interface Beliefs {
  readonly prior: ProblemPrior;
  /** Chance that the final answers of two attempts can be compared. */
  readonly comparable: number;
  /** Of a right answer by this slot, at each level of difficulty of the prior. */
  chancesOf(slot: Slot): Chances;
  /** Factor by which a search or a calculation raises the chances of the answers after it. */
  gainOf(candidate: Candidate): number;
}

export interface SearchRules extends Pick<SharedTexts, 'tilt' | 'budgets'> {
  /** Softness of the choice in utility units. */
  readonly temperature: number;
}

/** An unknown price is not admissible under a cost limit; without one it must not look like a bargain. */
const unknownCostUsd = 1;
/** Of somebody who is not among the candidates any more. */
const unknownChance = 0.5;

/**
 * From beliefs to choices by decision theory (architecture decision 13): exact prices, waits and weights enter here and
 * nowhere else, whoever believes.
 */
export function weighCandidates(
  input: PolicyInput,
  beliefs: Beliefs,
  { tilt, budgets, temperature }: SearchRules,
): Pick<PolicyOpinion, 'probabilities' | 'pRight' | 'weighted'> {
  const state = {
    prior: beliefs.prior,
    attempts: madeAttempts(input, beliefs),
    comparable: beliefs.comparable,
    turnsLeft: input.turnsLeft,
    attemptsLeft: budgets.attempts - input.evidence.attempts.length,
  };
  const options = input.candidates.map((candidate) => optionOf(candidate, input, beliefs));
  const outcomes = expectedUtility(options, state, input.weights, tilt);
  const utilities = outcomes.map(({ utility }) => utility);
  return {
    probabilities: choiceProbabilities(utilities, temperature),
    pRight: outcomes.map(({ pRight }) => pRight),
    weighted: true,
  };
}

function optionOf(candidate: Candidate, { weights }: PolicyInput, beliefs: Beliefs): UtilityOption {
  const { id, role, slot, delivers, expectedCost, expectedLatencyMs } = candidate;
  const price = {
    id,
    costUsd: expectedCost === undefined ? unknownCostUsd : toUsdNumber(expectedCost),
    latencyMs: expectedLatencyMs,
    // A delivery shows nobody anything new.
    privacy: delivers ? 1 : privacyRank(slot.privacy),
    selectorWeight: selectorWeight(slot, weights),
  };
  if (delivers) return { ...price, kind: 'deliver' };
  if (role === 'answer' || role === 'attempt') return { ...price, kind: role, chances: beliefs.chancesOf(slot) };
  return { ...price, kind: 'prepare', gain: beliefs.gainOf(candidate) };
}

/** Attempts so far, each with what was to be expected of whoever wrote it. */
function madeAttempts({ evidence, candidates }: PolicyInput, { prior, chancesOf }: Beliefs): MadeAttempt[] {
  const slots = new Map(candidates.map(({ slot }) => [slot.id, slot]));
  return evidence.attempts.map(({ id, slot, text, agreesWith }) => {
    const writer = slots.get(slot);
    return {
      id,
      slot,
      chances: writer ? chancesOf(writer) : prior.levels.map(() => unknownChance),
      agreesWith,
      comparable: finalAnswer(text) !== undefined,
    };
  });
}
