import { decimalToInteger, type NanoUsd, nanoUsd } from './money.ts';
import { promptTokensOf, type Usage } from './usage.ts';

/** Integer nano-dollars per million units; a unit is a token, a call or a millisecond. */
export interface Rates {
  readonly input: bigint;
  readonly output: bigint;
  readonly cacheRead: bigint;
  readonly cacheWrite: bigint;
  readonly cacheWriteHour: bigint;
  readonly reasoning: bigint;
  readonly call: bigint;
  readonly millisecond: bigint;
  /** Dearer rates for the whole request once its input, cached or not, is longer; ascending. */
  readonly tiers?: readonly { readonly aboveInputTokens: number; readonly rates: Rates }[];
}

/** Prices as people write them, in USD: per million tokens, per call, per second. */
export interface PriceText {
  readonly input?: string | number | undefined;
  readonly output?: string | number | undefined;
  readonly cache_read?: string | number | undefined;
  readonly cache_write?: string | number | undefined;
  readonly cache_write_1h?: string | number | undefined;
  readonly reasoning?: string | number | undefined;
  readonly per_call?: string | number | undefined;
  readonly per_second?: string | number | undefined;
}

const unitsPerRate = 1_000_000n;

/**
 * Left-out cache prices fall back to the input price and reasoning to the output price: never cheaper than billed. Writes
 * that are kept for an hour fall back to twice the input price, which is what Anthropic, who has them, asks.
 */
export function ratesFrom(price: PriceText): Rates {
  const perMillion = (value: string | number | undefined) => decimalToInteger(value ?? 0, 9);
  const input = perMillion(price.input);
  const output = perMillion(price.output);
  const cacheWrite = price.cache_write === undefined ? input : perMillion(price.cache_write);
  return {
    input,
    output,
    cacheRead: price.cache_read === undefined ? input : perMillion(price.cache_read),
    cacheWrite,
    cacheWriteHour:
      price.cache_write_1h === undefined ? dearest(cacheWrite, 2n * input) : perMillion(price.cache_write_1h),
    reasoning: price.reasoning === undefined ? output : perMillion(price.reasoning),
    call: decimalToInteger(price.per_call ?? 0, 15),
    millisecond: decimalToInteger(price.per_second ?? 0, 12),
  };
}

function dearest(...rates: readonly bigint[]): bigint {
  let most = 0n;
  for (const rate of rates) if (rate > most) most = rate;
  return most;
}

/**
 * For upper bounds and estimates: each kind at the dearest rate that its tokens may turn out to have. Input may have been
 * cached before, a cache write may be none, and output may be reasoning.
 */
export function ceilingOf({ tiers, ...rates }: Rates): Rates {
  const input = dearest(rates.input, rates.cacheRead);
  const cacheWrite = dearest(input, rates.cacheWrite);
  const output = dearest(rates.output, rates.reasoning);
  return {
    ...rates,
    input,
    cacheRead: input,
    cacheWrite,
    cacheWriteHour: dearest(cacheWrite, rates.cacheWriteHour),
    output,
    reasoning: output,
    ...(tiers ? { tiers: tiers.map((tier) => ({ ...tier, rates: ceilingOf(tier.rates) })) } : {}),
  };
}

export const freeRates: Rates = ratesFrom({});

export const isFree = ({ tiers = [], ...rates }: Rates): boolean =>
  Object.values(rates).every((rate) => rate === 0n) && tiers.every((tier) => isFree(tier.rates));

/** Whether somebody has to say how long a call took. */
export const isBilledByTime = (rates: Rates | undefined): boolean => rates !== undefined && rates.millisecond > 0n;

/** Sum of units times rate, divided once, rounded up: any language that repeats the sum gets the same number. */
export function priceOf(usage: Usage, { tiers = [], ...base }: Rates): NanoUsd {
  const input = promptTokensOf(usage);
  const rates = tiers.findLast(({ aboveInputTokens }) => input > aboveInputTokens)?.rates ?? base;
  const total =
    BigInt(usage.inputTokens) * rates.input +
    BigInt(usage.cacheReadTokens) * rates.cacheRead +
    BigInt(usage.cacheWriteTokens) * rates.cacheWrite +
    BigInt(usage.cacheWriteHourTokens) * rates.cacheWriteHour +
    BigInt(usage.outputTokens) * rates.output +
    BigInt(usage.reasoningTokens) * rates.reasoning +
    BigInt(usage.calls) * rates.call +
    BigInt(Math.ceil(usage.durationMs)) * rates.millisecond;
  return nanoUsd(Number((total + unitsPerRate - 1n) / unitsPerRate));
}
