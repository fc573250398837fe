import { type Hold, isRefusal } from '../cost/ledger.ts';
import { addUsd, formatUsd, type NanoUsd, zeroUsd } from '../cost/money.ts';
import { type PricedUsage, priceCall } from '../cost/price-book.ts';
import type { Rates } from '../cost/rates.ts';
import { type MeteredUsage, type Usage, usageOf } from '../cost/usage.ts';
import { OrchestraError } from '../errors.ts';
import type { EffectivePreferences } from '../preferences/request.ts';
import { abandonedUsage } from '../router/affordable.ts';
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

/** Money held for one relayed request; exactly one of the three closes it. */
export interface RelayCharge {
  settle(usage: Usage): Bill;
  /** The upstream did not say: the prompt, and what it wrote, by an estimate on the high side. */
  settleEstimated(writtenCodePoints: number): Bill;
  release(): Bill;
  /** True when a limit of the request or of its key stands over this money. */
  readonly limited: boolean;
}

export interface ChargeRequest {
  readonly runId: string;
  readonly keyName: string;
  readonly maxCostPerDay: NanoUsd | undefined;
  readonly model: RelayedModel;
  readonly preferences: EffectivePreferences;
  readonly body: RelayRequest;
  readonly bodyBytes: number;
  readonly writes: boolean;
}

/** @throws OrchestraError limits_unsatisfiable or budget_exceeded before a byte leaves. */
export function openCharge(request: ChargeRequest, { ledger, prices }: ServerParts): RelayCharge {
  const { runId, keyName, maxCostPerDay, model, preferences } = request;
  const { maxCost } = preferences.limits;
  const bound = [{ meter: model.meter, usage: boundUsage(request) }];
  const budget = ledger.openBudget({ runId, keyName, maxCost, maxCostPerDay });
  const hold = budget.hold(bound, zeroUsd);
  if (isRefusal(hold)) throw refusal(hold.scope, hold.needed, hold.available);

  const settle = (held: Hold, usages: readonly MeteredUsage[]): Bill => {
    const { total, known, lines, overrun } = budget.settle(held, usages);
    return { usage: usages[0]?.usage ?? usageOf({}), cost: total, known, lines, overrun };
  };
  return {
    limited: maxCost !== undefined || maxCostPerDay !== undefined,
    settle: (usage) => settle(hold, [{ meter: model.meter, usage: { ...usage, calls: 1 } }]),
    settleEstimated: (writtenCodePoints) => settle(hold, abandonedUsage(bound, writtenCodePoints)),
    release: () => {
      budget.release(hold);
      const { total, known, lines } = priceCall([], prices);
      return { usage: usageOf({}), cost: total, known, lines, overrun: false };
    },
  };
}

/** Chat templates and tool definitions add to what the client wrote. */
const promptAllowanceTokens = 1024;

/** A token is at least a byte, so the bytes of the body bound the prompt; each kind is held at its dearest price. */
function boundUsage({ body, bodyBytes, model, writes }: ChargeRequest): Usage {
  const inputTokens = bodyBytes + promptAllowanceTokens;
  const outputTokens = writes ? mostOutputTokens(body, model) : 0;
  const { rates } = model.slot;
  return usageOf({
    ...(dearer(rates, 'cacheWrite', 'input') ? { cacheWriteTokens: inputTokens } : { inputTokens }),
    ...(dearer(rates, 'reasoning', 'output') ? { reasoningTokens: outputTokens } : { outputTokens }),
    calls: 1,
  });
}

const dearer = (rates: Rates | undefined, left: keyof Rates, right: keyof Rates): boolean =>
  (rates?.[left] ?? 0n) > (rates?.[right] ?? 0n);

function mostOutputTokens(body: RelayRequest, { slot }: RelayedModel): number {
  const tokens = body.max_completion_tokens ?? body.max_tokens ?? slot.maxOutputTokens;
  return tokens * Math.max(1, count(body['n']), count(body['best_of']));
}

const count = (value: unknown): number => (typeof value === 'number' && Number.isInteger(value) ? value : 1);

function refusal(scope: 'request' | 'key_day', needed: NanoUsd, available: NanoUsd): OrchestraError {
  const details = { needed_usd: formatUsd(needed), available_usd: formatUsd(addUsd(available, zeroUsd)) };
  if (scope === 'key_day') {
    return new OrchestraError(
      'budget_exceeded',
      `This key may spend ${details.available_usd} USD more today; this request may cost ${details.needed_usd} USD.`,
      { details },
    );
  }
  return new OrchestraError(
    'limits_unsatisfiable',
    `preferences.max_cost_usd is below what this request may cost, ${details.needed_usd} USD; a lower \`max_tokens\` helps.`,
    { param: 'preferences.max_cost_usd', details },
  );
}
