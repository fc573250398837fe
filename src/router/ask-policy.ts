import { type Budget, isRefusal } from '../cost/ledger.ts';
import type { NanoUsd } from '../cost/money.ts';
import { type PriceBook, priceBound, priceCall } from '../cost/price-book.ts';
import { type MeteredUsage, noUsage, type Usage } from '../cost/usage.ts';
import { OrchestraError } from '../errors.ts';
import { EngineFailure } from '../inference/engine.ts';
import { regionObjection } from '../preferences/limits.ts';
import { satisfiesPrivacy } from '../preferences/privacy.ts';
import { admitsUpstream, namesUpstream } from '../preferences/selectors.ts';
import { createCallTime } from '../upstream/call-time.ts';
import { type Policy, PolicyFailure, type PolicyInput, type PolicyOpinion } from './policy.ts';
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
  /** Told what made the fallback decide, where the report does not say it. */
  readonly onError: (error: OrchestraError, runId: string) => void;
}

/**
 * Asks the policy and books its tokens; the fallback decides when it may not be asked, fails, is too dear, or makes no
 * sense.
 * @param keepBack must stay free beside what the decision may cost.
 */
export async function askPolicy(
  input: PolicyInput,
  state: RunState,
  deciders: Deciders,
  keepBack: NanoUsd,
): Promise<PolicyAnswer> {
  if (input.candidates.length === 1) {
    return { opinion: { probabilities: [1], weighted: true, usage: noUsage }, decidedBy: 'only choice' };
  }
  const { policy, fallback } = deciders;
  const barred = whyBarred(policy, state);
  if (barred) {
    if (!fallback) throw mayNotAsk(policy, barred);
    state.warn('policy_skipped', `The policy ${policy.name} was not asked: ${barred}. ${fallback.name} decided.`);
    return { opinion: await fallback.decide(input), decidedBy: fallback.name };
  }
  try {
    const opinion = await payFor(policy, input, state, deciders.prices, keepBack);
    if (!isSane(opinion, input.candidates.length)) {
      throw new PolicyFailure('its probabilities do not add up', noUsage, false);
    }
    return { opinion, decidedBy: policy.name };
  } catch (error) {
    if (input.signal.aborted) throw error;
    if (!fallback) throw policyError(error);
    if (!isTold(error)) deciders.onError(policyError(error), state.spec.runId);
    state.warn(
      'policy_fallback',
      `The policy ${policy.name} could not decide (${reasonOf(error)}); ${fallback.name} did.`,
    );
    return { opinion: await fallback.decide(input), decidedBy: fallback.name };
  }
}

/** A policy that runs elsewhere sees everything, so limits and evidence bind it as they bind a slot. */
function whyBarred({ place }: Policy, state: RunState): string | undefined {
  if (!place) return undefined;
  if (!satisfiesPrivacy(place.privacy, state.privacy)) {
    return `its class is ${place.privacy}, and this run needs ${state.privacy}`;
  }
  const { limits } = state.spec.preferences;
  const denied = limits.deny.find((selector) => namesUpstream(selector, place.upstream));
  if (denied !== undefined) return `denied by \`${denied}\``;
  if (!limits.allow.every((list) => admitsUpstream(list, place.upstream)))
    return 'its upstream is not in the allow list';
  return regionObjection(place, limits);
}

const mayNotAsk = ({ name }: Policy, reason: string): OrchestraError =>
  new OrchestraError(
    'policy_unavailable',
    `The policy ${name} may not be asked (${reason}), and no fallback is allowed.`,
  );

async function payFor(
  policy: Policy,
  input: PolicyInput,
  state: RunState,
  prices: PriceBook,
  keepBack: NanoUsd,
): Promise<PolicyOpinion> {
  const bound = boundOf(policy, input.timeLeftMs);
  const isFree = priceBound(metered(bound), prices).total === 0;
  const hold = isFree ? undefined : holdFor(state.budget, metered(bound), keepBack);
  const book = (usage: readonly MeteredUsage[]) => {
    const priced = hold ? state.budget.settle(hold, usage) : { ...priceCall(usage, prices), overrun: false };
    state.book(priced.lines);
    if (priced.overrun)
      state.warn('upstream_overrun', 'An upstream billed more than it was allowed to; it was booked in full.');
  };
  const close = ({ usage, estimated }: Pick<PolicyOpinion, 'usage' | 'estimated'>) => {
    if (usage.calls > 0 || usage.durationMs > 0)
      book(metered({ ...usage, durationMs: Math.min(usage.durationMs, bound.durationMs) }, estimated));
    else if (hold) state.budget.release(hold);
  };
  let opinion: PolicyOpinion;
  try {
    opinion = await policy.decide(input);
  } catch (error) {
    // Our own engine bills nobody for a decision that it did not make.
    close(error instanceof PolicyFailure ? error : { usage: noUsage });
    throw error;
  }
  close(opinion);
  return opinion;
}

/** The most that one decision can cost. */
export const decisionPrice = (policy: Policy, timeLeftMs: number, prices: PriceBook): NanoUsd =>
  priceBound(metered(boundOf(policy, timeLeftMs)), prices).total;

/** Only whoever runs elsewhere is paid for time, and for no more than the run has left. */
const boundOf = ({ bound, place }: Policy, timeLeftMs: number): Usage =>
  place ? { ...bound, durationMs: createCallTime(timeLeftMs).longestMs } : bound;

const metered = (usage: Usage, estimated = false): readonly MeteredUsage[] => [
  { meter: policyMeter, usage, estimated },
];

function holdFor(budget: Budget, bound: readonly MeteredUsage[], keepBack: NanoUsd) {
  const hold = budget.hold(bound, keepBack);
  if (isRefusal(hold)) throw new OrchestraError('budget_exceeded', 'the money left does not cover its decision');
  return hold;
}

function isSane({ probabilities }: PolicyOpinion, count: number): boolean {
  const sum = probabilities.reduce((total, value) => total + value, 0);
  return probabilities.length === count && probabilities.every((value) => value >= 0) && Math.abs(sum - 1) < 1e-3;
}

/** Whether its message is written to be shown. */
const isTold = (error: unknown): error is PolicyFailure | OrchestraError =>
  error instanceof PolicyFailure || error instanceof OrchestraError;

function reasonOf(error: unknown): string {
  if (isTold(error)) return error.message;
  if (error instanceof EngineFailure) return error.kind === 'busy' ? 'busy, or not done in time' : error.kind;
  return 'an error inside the gateway; the log has the cause';
}

function policyError(error: unknown): OrchestraError {
  if (error instanceof OrchestraError) return error;
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
