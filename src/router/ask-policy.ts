import { type Budget, isRefusal } from '../cost/ledger.ts';
import { zeroUsd } from '../cost/money.ts';
import { type PriceBook, priceCall } from '../cost/price-book.ts';
import { noUsage, type Usage } from '../cost/usage.ts';
import { OrchestraError } from '../errors.ts';
import { EngineFailure } from '../inference/engine.ts';
import type { Policy, PolicyInput, PolicyOpinion } from './policy.ts';
import type { RunState } from './run-state.ts';

/** The meter under which a policy's own tokens are priced. */
export const policyMeter = 'policy';

export interface PolicyAnswer {
  readonly opinion: PolicyOpinion;
  /** Name of the policy, or `only choice`. */
  readonly decidedBy: string;
}

interface Deciders {
  readonly policy: Policy;
  readonly fallback: Policy | undefined;
  readonly prices: PriceBook;
}

/** Asks the policy and books its tokens; the fallback decides when it fails, is too dear, or makes no sense. */
export async function askPolicy(input: PolicyInput, state: RunState, deciders: Deciders): Promise<PolicyAnswer> {
  if (input.candidates.length === 1) {
    return { opinion: { probabilities: [1], weighted: true, usage: noUsage }, decidedBy: 'only choice' };
  }
  const { policy, fallback } = deciders;
  try {
    const opinion = await payFor(policy, input, state, deciders.prices);
    if (!isSane(opinion, input.candidates.length)) throw new Error('its probabilities do not add up');
    return { opinion, decidedBy: policy.name };
  } catch (error) {
    if (input.signal.aborted) throw error;
    if (!fallback) throw policyError(error);
    state.warn(
      'policy_fallback',
      `The policy ${policy.name} could not decide (${reasonOf(error)}); ${fallback.name} did.`,
    );
    return { opinion: await fallback.decide(input), decidedBy: fallback.name };
  }
}

async function payFor(policy: Policy, input: PolicyInput, state: RunState, prices: PriceBook): Promise<PolicyOpinion> {
  const metered = (usage: Usage) => [{ meter: policyMeter, usage }];
  const isFree = priceCall(metered(policy.bound), prices).total === 0;
  const hold = isFree ? undefined : holdFor(state.budget, metered(policy.bound));
  try {
    const opinion = await policy.decide(input);
    if (opinion.usage === noUsage) return opinion;
    const priced = hold ? state.budget.settle(hold, metered(opinion.usage)) : priceCall(metered(opinion.usage), prices);
    state.book(priced.lines);
    return opinion;
  } catch (error) {
    // Our own engine bills nobody for a decision that it did not make.
    if (hold) state.budget.release(hold);
    throw error;
  }
}

function holdFor(budget: Budget, bound: Parameters<Budget['hold']>[0]) {
  const hold = budget.hold(bound, zeroUsd);
  if (isRefusal(hold)) throw new Error('no money is left for its tokens');
  return hold;
}

function isSane({ probabilities }: PolicyOpinion, count: number): boolean {
  const sum = probabilities.reduce((total, value) => total + value, 0);
  return probabilities.length === count && probabilities.every((value) => value >= 0) && Math.abs(sum - 1) < 1e-3;
}

const reasonOf = (error: unknown): string =>
  error instanceof EngineFailure ? error.kind : error instanceof Error ? error.message : 'unknown reason';

function policyError(error: unknown): OrchestraError {
  if (error instanceof EngineFailure && error.kind === 'busy') {
    return new OrchestraError('policy_busy', 'The policy has too many requests waiting.', {
      retryAfterMs: 1000,
      cause: error,
    });
  }
  return new OrchestraError('policy_unavailable', 'The policy cannot decide now, and no fallback is allowed.', {
    retryAfterMs: 5000,
    cause: error,
  });
}
