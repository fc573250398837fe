import { addUsd, type NanoUsd, zeroUsd } from './money.ts';
import { ceilingOf, priceOf, type Rates } from './rates.ts';
import { addUsage, type MeteredUsage, type Usage } from './usage.ts';

/** What one meter charges and whom a report names for it. */
export interface MeterPrice {
  /** Undefined when the operator declared the price unknown: reported as unknown, never as 0. */
  readonly rates: Rates | undefined;
  /** The model (`openai/gpt-5`) or tool (`tavily`) in reports. */
  readonly label: string;
  readonly kind: 'model' | 'tool' | 'policy';
}

/** What every meter charges; relayed models are looked up when they are first named. */
export interface PriceBook {
  get(meter: string): MeterPrice | undefined;
}

export interface PricedUsage extends Pick<MeterPrice, 'label' | 'kind'> {
  readonly meter: string;
  readonly usage: Usage;
  readonly cost: NanoUsd | undefined;
  readonly estimated: boolean;
}

export interface PricedCall {
  /** Sum over the lines with a known price. */
  readonly total: NanoUsd;
  readonly lines: readonly PricedUsage[];
  /** False when at least one line has no known price: `total` is then a lower bound. */
  readonly known: boolean;
}

/**
 * What was consumed, at its price; an estimate is priced like an upper bound.
 * @throws Error for a meter that is not in the book: every tool must be registered there.
 */
export function priceCall(usages: readonly MeteredUsage[], book: PriceBook): PricedCall {
  const lines = usages.map(({ meter, usage, estimated = false }): PricedUsage => {
    const price = book.get(meter);
    if (!price) throw new Error(`no price entry for meter ${meter}`);
    const cost = price.rates && priceOf(usage, estimated ? ceilingOf(price.rates) : price.rates);
    return { label: price.label, kind: price.kind, meter, usage, cost, estimated };
  });
  return {
    total: addUsd(zeroUsd, ...lines.flatMap(({ cost }) => cost ?? [])),
    lines,
    known: lines.every(({ cost }) => cost !== undefined),
  };
}

/** The most that may be billed for what is bounded: what kind a token turns out to be is not known before. */
export const priceBound = (bound: readonly MeteredUsage[], book: PriceBook): PricedCall =>
  priceCall(
    bound.map((usage) => ({ ...usage, estimated: true })),
    book,
  );

/** One line a meter, for reports over a whole run. */
export function mergeLines(lines: readonly PricedUsage[]): PricedUsage[] {
  const merged = new Map<string, PricedUsage>();
  for (const line of lines) {
    const before = merged.get(line.meter);
    merged.set(line.meter, before ? combine(before, line) : line);
  }
  return [...merged.values()];
}

function combine(left: PricedUsage, right: PricedUsage): PricedUsage {
  const known = left.cost !== undefined && right.cost !== undefined;
  return {
    ...left,
    usage: addUsage(left.usage, right.usage),
    cost: known ? addUsd(left.cost ?? zeroUsd, right.cost ?? zeroUsd) : undefined,
    estimated: left.estimated || right.estimated,
  };
}
