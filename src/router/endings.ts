import type { HoldScope } from '../cost/ledger.ts';
import { addUsd, formatUsd, type NanoUsd, zeroUsd } from '../cost/money.ts';
import { OrchestraError, toOrchestraError } from '../errors.ts';
import { type LimitOrigin, originOf } from '../preferences/limit-origin.ts';
import { type LimitApplied, maskSlots, paramOfLimit } from '../preferences/limits.ts';
import type { Slot } from '../preferences/slot.ts';
import type { RunClock } from './clock.ts';
import type { ForcingLimit } from './in-time.ts';
import type { TurnOptions } from './options.ts';
import type { RunSpec } from './run.ts';
import type { RunState } from './run-state.ts';

/** Before anything was spent: the hard limits leave nobody who could answer. */
export function nobodyAdmissible(limits: readonly LimitApplied[]): OrchestraError {
  const applied = limits.filter(({ removed }) => removed.length > 0);
  const reasons = applied.map(
    ({ limit, removed }) => `${limit} removed ${removed.map(({ slot, reason }) => `${slot} (${reason})`).join(', ')}`,
  );
  const because = reasons.length > 0 ? `: ${reasons.join('; ')}` : '; none is configured';
  return new OrchestraError('limits_unsatisfiable', `No slot is left that could answer${because}.`, {
    details: { removed: Object.fromEntries(applied.map(({ limit, removed }) => [limit, removed])) },
    ...paramOf(applied),
  });
}

/** Names the field only where it alone is to blame; what a request needs is spread over several. */
function paramOf(applied: readonly LimitApplied[]): { readonly param?: string } {
  const [only, ...others] = applied;
  if (!only || others.length > 0) return {};
  return paramOfLimit(only.limit);
}

/**
 * Before anything was spent: only the length of the conversation stands in the way. Agents shorten their history when
 * they are told so, and only then: it must not be one reason among others.
 */
export function tooLong({ preferences, needs }: RunSpec, slots: readonly Slot[]): OrchestraError | undefined {
  const { admissible } = maskSlots(slots, preferences, { ...needs, contextTokens: 0 });
  const contexts = admissible.filter(({ role }) => role === 'answer').map(({ contextTokens }) => contextTokens);
  if (contexts.length === 0) return undefined;
  const message = `The messages take at least ${needs.contextTokens} tokens; the longest context here is ${Math.max(...contexts)} tokens.`;
  return new OrchestraError('context_length_exceeded', message, { param: 'messages' });
}

/** Before anything was spent: no admissible answer fits the money, or not beside the decision that must come first. */
export function nobodyAffordable(
  spec: RunSpec,
  { cheapestAnswer = zeroUsd, decisionCost }: TurnOptions,
  available: NanoUsd,
): OrchestraError {
  const { maxCost } = spec.preferences.limits;
  const needed = addUsd(cheapestAnswer, decisionCost);
  const what = decisionCost > 0 ? 'a decision and the cheapest answer' : 'the cheapest answer';
  if (maxCost === undefined || maxCost >= needed) {
    return new OrchestraError(
      'budget_exceeded',
      `This key may spend ${formatUsd(available)} USD more today; ${what} may cost ${formatUsd(needed)} USD.`,
      { details: { needed_usd: formatUsd(needed), available_usd: formatUsd(available) } },
    );
  }
  const { words, ...param } = originOf('max_cost_usd', spec.preferences);
  return new OrchestraError(
    'limits_unsatisfiable',
    `${words} is ${formatUsd(maxCost)}; ${what} ${decisionCost > 0 ? 'need' : 'needs'} up to ${formatUsd(needed)}.`,
    { ...param, details: { needed_usd: formatUsd(needed) } },
  );
}

/** In the middle of a run no choice is left: every answer slot failed, or the money went to somebody else meanwhile. */
export function nothingLeft(state: RunState, { ruledOut, decisionCost, cheapestAnswer }: TurnOptions): OrchestraError {
  const failures = [...state.failures].map(([slot, { reason, failure }]) => ({ slot, reason, kind: failure }));
  const details = { failures, ruled_out: ruledOut };
  // Where nobody is left who answers, money is not what is missing.
  if (failures.length === 0 || (decisionCost > 0 && cheapestAnswer !== undefined)) {
    const what = decisionCost > 0 ? 'decision with an answer behind it' : 'answer';
    return new OrchestraError('budget_exceeded', `The money left admits no ${what} any more.`, { details });
  }
  const answering = [...state.failures.values()].filter(({ role }) => role === 'answer');
  const all = (kind: string) => answering.length > 0 && answering.every(({ failure }) => failure === kind);
  const told = failures.map(({ slot, reason }) => `${slot}: ${reason}`).join('; ');
  if (all('rate_limited')) {
    const waits = answering.flatMap(({ retryAfterMs }) => retryAfterMs ?? []);
    return new OrchestraError('rate_limited', `Every slot that could answer is rate limited (${told}).`, {
      details,
      ...(waits.length > 0 ? { retryAfterMs: Math.min(...waits) } : {}),
    });
  }
  if (all('context_length_exceeded')) {
    return new OrchestraError('context_length_exceeded', `The conversation is too long for every slot (${told}).`, {
      param: 'messages',
      details,
    });
  }
  if (all('schema_refused')) {
    return new OrchestraError('schema_refused', `No slot can hold to \`response_format\` (${told}).`, {
      param: 'response_format',
      details,
      ...(state.schemaReason === undefined ? {} : { quote: state.schemaReason }),
    });
  }
  return new OrchestraError('upstream_failed', `Every slot that could answer failed (${told}).`, { details });
}

/** The caller asked for an error instead of an answer under a limit that has become tight. */
export function limitReached(limit: ForcingLimit, { spec, budget }: RunState, clock: RunClock): OrchestraError {
  const codes = {
    max_cost_usd: 'budget_exceeded',
    max_latency_ms: 'deadline_exceeded',
    max_turns: 'limits_unsatisfiable',
  } as const;
  const { words, ...param } = forcedOrigin(limit, spec, budget.tightest(), clock.limitMs);
  const message = `${words} leaves no room for another step before the answer, and on_limit is \`error\`.`;
  return new OrchestraError(codes[limit], message, param);
}

/** A run has limits also where its preferences have none. */
function forcedOrigin(
  limit: ForcingLimit,
  { preferences }: RunSpec,
  tightest: HoldScope | undefined,
  runLimitMs: number,
): LimitOrigin {
  const { maxTurns, maxLatencyMs = Number.POSITIVE_INFINITY } = preferences.limits;
  if (limit === 'max_turns' && maxTurns === undefined) return { words: '`limits.max_turns` of this server' };
  if (limit === 'max_latency_ms' && runLimitMs < maxLatencyMs) {
    return { words: 'The time that the client or the server gives a run' };
  }
  const isDay = limit === 'max_cost_usd' && tightest === 'key_day';
  return originOf(isDay ? 'max_cost_usd_per_day' : limit, preferences);
}

export const clientLeft = (): OrchestraError => new OrchestraError('cancelled', 'The client left.');

/** Whatever ended a run early, as the client's error: whoever stopped it on purpose said why. */
export function endingOf(thrown: unknown, client: AbortSignal, clock: RunClock): OrchestraError {
  if (client.aborted) return client.reason instanceof OrchestraError ? client.reason : clientLeft();
  if (clock.expired()) {
    return new OrchestraError('deadline_exceeded', 'No answer was ready before the deadline.', { cause: thrown });
  }
  return toOrchestraError(thrown);
}
