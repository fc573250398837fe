import type { ChargeStore, Scope } from '../store/charges.ts';
import { addUsd, type NanoUsd, nanoUsd, zeroUsd } from './money.ts';
import { mergeLines, type PriceBook, type PricedCall, priceBound, priceCall } from './price-book.ts';
import { type MeteredUsage, outputTokensOf } from './usage.ts';

/*
 * The flow of money. Before a call: price its upper bound and hold that much in every scope it draws on (the run, the
 * key's day); a hold that would pass a limit is refused and nothing happens. After the call: settle, which books what
 * was really consumed and frees the rest; or release, when nothing can have been billed. Held plus spent never passes
 * a limit, whatever the order of requests, because each step is one act. A run also keeps back the price of
 * the cheapest admissible answer, so that it can always end with one.
 */

export interface BudgetLimits {
  readonly runId: string;
  readonly keyName: string;
  /** Most that this request may cost in all; undefined = no limit of its own. */
  readonly maxCost: NanoUsd | undefined;
  /** Most that this key may spend in a UTC day. */
  readonly maxCostPerDay: NanoUsd | undefined;
}

export interface Hold {
  readonly chargeId: number;
  readonly amount: NanoUsd;
}

/** Told the meters that consumed more than they were allowed to, so that whoever is behind them can be avoided. */
export type OnOverrun = (meters: readonly string[]) => void;

/** What money may be limited for. */
export type HoldScope = 'request' | 'key_day';

/** Why a hold was refused. */
export interface Refusal {
  readonly scope: HoldScope;
  readonly needed: NanoUsd;
  readonly available: NanoUsd;
}

export interface Budget {
  /**
   * Reserves the bound of a call.
   * @param keepBack must stay free beside it.
   */
  hold(bound: readonly MeteredUsage[], keepBack: NanoUsd): Hold | Refusal;
  /** Books what was consumed. An upstream that bills more than was held is booked truthfully and reported. */
  settle(hold: Hold, usage: readonly MeteredUsage[]): PricedCall & { readonly overrun: boolean };
  release(hold: Hold): void;
  /** What the tightest scope still admits; undefined without a limit. */
  remaining(): NanoUsd | undefined;
  /** The scope that admits least, the request's own where both admit the same; undefined without a limit. */
  tightest(): HoldScope | undefined;
}

export interface Ledger {
  openBudget(limits: BudgetLimits): Budget;
  /** Books what a crashed process left on hold; call once at start. */
  recover(): number;
}

export const isRefusal = (result: Hold | Refusal): result is Refusal => 'needed' in result;

interface LedgerParts {
  readonly charges: ChargeStore;
  readonly prices: PriceBook;
  readonly now: () => number;
  readonly onOverrun: OnOverrun;
}

export function createLedger(
  charges: ChargeStore,
  prices: PriceBook,
  now: () => number,
  onOverrun: OnOverrun = () => undefined,
): Ledger {
  return {
    openBudget: (limits) => openBudget({ charges, prices, now, onOverrun }, limits),
    recover: () => charges.settleAbandoned(),
  };
}

function openBudget({ charges, prices, now, onOverrun }: LedgerParts, limits: BudgetLimits): Budget {
  const { runId, keyName } = limits;
  const runScope: Scope = { name: `run:${runId}`, limitNano: limits.maxCost };
  const scopes = (): Scope[] => [
    // A run without a limit of its own needs no account: its record says what it cost.
    ...(limits.maxCost === undefined ? [] : [runScope]),
    { name: `day:${utcDay(now())}:${keyName}`, limitNano: limits.maxCostPerDay },
  ];
  const kindOf = (name: string): HoldScope => (name === runScope.name ? 'request' : 'key_day');
  const available = ({ name, limitNano }: Scope): number => {
    if (limitNano === undefined) return Number.POSITIVE_INFINITY;
    const { spentNano, heldNano } = charges.totals(name);
    return limitNano - spentNano - heldNano;
  };

  /** With what each may consume. */
  const open = new Map<Hold, readonly MeteredUsage[]>();
  const closing = (hold: Hold): readonly MeteredUsage[] => {
    const bound = open.get(hold);
    if (!bound) throw new Error(`charge ${hold.chargeId} was closed before`);
    open.delete(hold);
    return bound;
  };

  return {
    hold: (bound, keepBack) => {
      const amount = priceBound(bound, prices).total;
      const request = { runId, keyName, atMs: now(), amountNano: amount, keepBackNano: keepBack, scopes: scopes() };
      const result = charges.hold(request);
      if (result.held) {
        const hold = { chargeId: result.chargeId, amount };
        open.set(hold, bound);
        return hold;
      }
      return {
        scope: kindOf(result.scope),
        needed: addUsd(amount, keepBack),
        available: nanoUsd(result.availableNano),
      };
    },
    settle: (hold, usage) => {
      const bound = closing(hold);
      const priced = priceCall(usage, prices);
      const lines = priced.lines.map(({ meter, usage: used, cost, estimated }) => ({
        meter,
        usage: used,
        cost,
        estimated,
      }));
      charges.settle(hold.chargeId, priced.total, JSON.stringify(lines));
      const overrun = priced.total > hold.amount;
      const atFault = overrun ? metersOver(bound, priced, prices) : [];
      if (atFault.length > 0) onOverrun(atFault);
      return { ...priced, overrun };
    },
    release: (hold) => {
      closing(hold);
      charges.release(hold.chargeId);
    },
    remaining: () => {
      const least = Math.min(...scopes().map(available));
      return least === Number.POSITIVE_INFINITY ? undefined : nanoUsd(Math.max(0, least));
    },
    tightest: () => {
      const limited = scopes().filter(({ limitNano }) => limitNano !== undefined);
      const [first] = limited.toSorted((one, other) => available(one) - available(other));
      return first && kindOf(first.name);
    },
  };
}

/** Whose fault an overrun is: an estimate proves nothing, and where the bound is one, only what was written does. */
function metersOver(bound: readonly MeteredUsage[], billed: PricedCall, prices: PriceBook): string[] {
  return mergeLines(billed.lines).flatMap(({ meter, usage, cost = zeroUsd, estimated }) => {
    const allowed = bound.filter((line) => line.meter === meter);
    if (estimated || cost <= priceBound(allowed, prices).total) return [];
    const wroteTooMuch = outputTokensOf(usage) > allowed.reduce((sum, line) => sum + outputTokensOf(line.usage), 0);
    return wroteTooMuch || allowed.every((line) => line.unwrittenTokens === undefined) ? [meter] : [];
  });
}

const utcDay = (instantMs: number): string => new Date(instantMs).toISOString().slice(0, 10);
