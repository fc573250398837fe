import { isRefusal, type Refusal } from '../cost/ledger.ts';
import { addUsd, formatUsd, type NanoUsd, zeroUsd } from '../cost/money.ts';
import { type PricedUsage, priceBound, priceCall } from '../cost/price-book.ts';
import { isBilledByTime } from '../cost/rates.ts';
import { type MeteredUsage, type Usage, usageOf } from '../cost/usage.ts';
import { OrchestraError } from '../errors.ts';
import { originOf } from '../preferences/limit-origin.ts';
import type { EffectivePreferences } from '../preferences/request.ts';
import { abandonedUsage, affordableOutputTokens, leastAnswerTokens } from '../router/affordable.ts';
import { agedWrites, cacheMarkIn, dearestMark, promptUsage } from '../upstream/cache-marks.ts';
import { type CallTime, createCallTime } from '../upstream/call-time.ts';
import type { RelayPath } from '../upstream/relay-request.ts';
import { type UnwrittenInput, unwrittenTokens } from '../upstream/unwritten-input.ts';
import type { RelayedModel, ServerParts } from './parts.ts';
import type { RelayRequest } from './wire.ts';

/** What one relayed request cost in the end. */
export interface Bill {
  readonly usage: Usage;
  readonly cost: NanoUsd;
  readonly known: boolean;
  readonly lines: readonly PricedUsage[];
  /** The upstream billed more than the upper bound that was held. */
  readonly overrun: boolean;
}

/** Money held for one relayed request; exactly one of the three closes it, each with the time that it took. */
export interface RelayCharge {
  /** Runs while the upstream is at work. */
  readonly callTime: CallTime;
  settle(usage: Usage): Bill;
  /** The upstream did not say: the prompt, and what it wrote, by an estimate on the high side. */
  settleEstimated(writtenBytes: number): Bill;
  /** No token was taken. */
  release(): Bill;
  /** What the upstream must be told to stop at, because the money ends there; undefined where the request stands. */
  readonly maxTokens: number | undefined;
}

export interface ChargeRequest {
  readonly runId: string;
  readonly keyName: string;
  readonly model: RelayedModel;
  readonly preferences: EffectivePreferences;
  readonly path: RelayPath;
  readonly body: RelayRequest;
  readonly bodyBytes: number;
  readonly unwritten: UnwrittenInput;
  /** When it is broken off; undefined where nobody is paid for time. */
  readonly deadlineMs: number | undefined;
}

/** @throws OrchestraError limits_unsatisfiable or budget_exceeded before a byte leaves. */
export function openCharge(request: ChargeRequest, { ledger, prices }: ServerParts): RelayCharge {
  const { runId, keyName, model, preferences, body, unwritten } = request;
  const { maxCost, maxCostPerDay } = preferences.limits;
  const { meter } = model;
  const budget = ledger.openBudget({ runId, keyName, maxCost, maxCostPerDay });
  const mark = cacheMarkIn(body);
  const beside = unwrittenTokens(unwritten, model.slot);
  const promptTokens = request.bodyBytes - unwritten.inlineBytes + promptAllowanceTokens + beside;
  // Most upstreams write to their caches unasked.
  const prompt = promptUsage(promptTokens, dearestMark(mark, 'usual'));
  const isWritten = unwritten.pictures === 0 && unwritten.unsized === undefined && unwritten.unpriced === undefined;
  const callTime = createCallTime(request.deadlineMs ?? Number.MAX_SAFE_INTEGER);
  const boundOf = (outputTokens: number): MeteredUsage[] => [
    {
      meter,
      usage: usageOf({ ...prompt, outputTokens, calls: 1, durationMs: callTime.longestMs }),
      ...(isWritten ? {} : { unwrittenTokens: beside }),
    },
  ];
  const output = outputBound(request, budget.remaining(), (tokens) => priceBound(boundOf(tokens), prices).total);
  const bound = boundOf(output.tokens);
  const hold = budget.hold(bound, zeroUsd);
  if (isRefusal(hold)) throw refusal(hold, preferences);

  const settle = (usages: readonly MeteredUsage[]): Bill => {
    const { total, known, lines, overrun } = budget.settle(hold, usages);
    return { usage: usages[0]?.usage ?? usageOf({}), cost: total, known, lines, overrun };
  };
  return {
    callTime,
    maxTokens: output.cap,
    settle: (usage) => settle([{ meter, usage: { ...agedWrites(usage, mark), calls: 1, durationMs: callTime.ms() } }]),
    settleEstimated: (writtenBytes) => settle(abandonedUsage(bound, writtenBytes, callTime.ms())),
    release: () => {
      if (isBilledByTime(model.slot.rates)) return settle([{ meter, usage: usageOf({ durationMs: callTime.ms() }) }]);
      budget.release(hold);
      const { total, known, lines } = priceCall([], prices);
      return { usage: usageOf({}), cost: total, known, lines, overrun: false };
    },
  };
}

/** A token is at least a byte, so the bytes of the body bound the prompt; chat templates add to what was written. */
const promptAllowanceTokens = 1024;

/** What upstreams write at most when a legacy completion does not say; OpenAI documents it. */
const legacyDefaultTokens = 16;

/**
 * How much may be written. An answer without a cap of its own gets one where money is limited and output costs some: as
 * much as the model writes and the money covers.
 */
function outputBound(
  { path, body, model: { slot } }: ChargeRequest,
  remaining: NanoUsd | undefined,
  priceOfTokens: (outputTokens: number) => NanoUsd,
): { readonly tokens: number; readonly cap?: number } {
  if (path === '/embeddings') return { tokens: 0 };
  const isLegacy = path === '/completions';
  const answers = Math.max(1, body.n ?? 1, body.best_of ?? 1) * (isLegacy ? promptsIn(body['prompt']) : 1);
  // Legacy completions know one of the two only; the other would be a cap that nobody keeps.
  const asked = (isLegacy ? undefined : body.max_completion_tokens) ?? body.max_tokens ?? undefined;
  if (asked !== undefined) return { tokens: asked * answers };
  const isFree = priceOfTokens(answers * slot.maxOutputTokens) === priceOfTokens(0);
  if (remaining === undefined || isFree) return { tokens: slot.maxOutputTokens * answers };
  const most = isLegacy ? legacyDefaultTokens : slot.maxOutputTokens;
  const affordable = affordableOutputTokens(most, remaining, (tokens) => priceOfTokens(tokens * answers));
  // Where not even a short answer fits, the refusal names what one would need.
  const cap = affordable ?? Math.min(most, leastAnswerTokens);
  return { tokens: cap * answers, cap };
}

/** Each text or list of tokens is answered by itself; a list of numbers is one prompt. */
const promptsIn = (prompt: unknown): number =>
  Array.isArray(prompt) ? Math.max(1, prompt.filter((item) => typeof item !== 'number').length) : 1;

function refusal({ scope, needed, available }: Refusal, preferences: EffectivePreferences): OrchestraError {
  const details = { needed_usd: formatUsd(needed), available_usd: formatUsd(addUsd(available, zeroUsd)) };
  if (scope === 'key_day') {
    return new OrchestraError(
      'budget_exceeded',
      `This key may spend ${details.available_usd} USD more today; this request may cost ${details.needed_usd} USD.`,
      { details },
    );
  }
  const { words, ...param } = originOf('max_cost_usd', preferences);
  return new OrchestraError(
    'limits_unsatisfiable',
    `${words} is below what this request may cost, ${details.needed_usd} USD; a lower \`max_tokens\` helps.`,
    { ...param, details },
  );
}
