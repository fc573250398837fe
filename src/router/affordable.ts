import type { NanoUsd } from '../cost/money.ts';
import { nanoUsd } from '../cost/money.ts';
import { type PriceBook, priceBound, priceCall } from '../cost/price-book.ts';
import { type MeteredUsage, promptTokensOf, type Usage } from '../cost/usage.ts';
import { allowanceBytes } from '../tools/input-bound.ts';
import type { Tool, ToolInput } from '../tools/tool.ts';

/** An answer shorter than this is not worth starting; also what is kept back for the end of a run. */
export const leastAnswerTokens = 256;

/** Roughly what an expert writes of whom nothing is known; for expectations, never for holds. */
const usualOutputTokens = 400;
/** Holds bound input tokens by bytes; real tokenizers need about a quarter of that. */
const bytesPerToken = 4;

export const boundPrice = (tool: Tool, input: ToolInput, prices: PriceBook): NanoUsd =>
  priceBound(tool.bound(input), prices).total;

/**
 * The longest answer whose upper bound still fits the money left.
 * @param wanted most output tokens to ask for.
 * @param priceOfTokens upper bound of what an answer of so many output tokens costs.
 * @returns undefined when not even the shortest worthwhile answer fits.
 */
export function affordableOutputTokens(
  wanted: number,
  available: NanoUsd | undefined,
  priceOfTokens: (outputTokens: number) => NanoUsd,
): number | undefined {
  if (available === undefined || priceOfTokens(wanted) <= available) return wanted;
  const least = Math.min(leastAnswerTokens, wanted);
  if (priceOfTokens(least) > available) return undefined;
  let [fits, tooMany] = [least, wanted];
  while (tooMany - fits > 1) {
    const middle = Math.floor((fits + tooMany) / 2);
    if (priceOfTokens(middle) <= available) fits = middle;
    else tooMany = middle;
  }
  return fits;
}

/** What the call will probably cost; undefined when a price is unknown. */
export function expectedPrice(tool: Tool, input: ToolInput, prices: PriceBook): NanoUsd | undefined {
  const typical = tool.slot.typicalOutputTokens ?? usualOutputTokens;
  const bound = tool.bound({ ...input, maxOutputTokens: Math.min(input.maxOutputTokens, typical) });
  const priced = priceCall(
    bound.map((most) => toExpectation(most, tool.slot.latencyMs)),
    prices,
  );
  return priced.known ? priced.total : undefined;
}

/** What is written to a cache once is read from it later, so the plain price of input is a fair middle. */
function toExpectation({ meter, usage }: MeteredUsage, latencyMs: number): MeteredUsage {
  const inputTokens = Math.ceil(Math.max(0, promptTokensOf(usage) - allowanceBytes) / bytesPerToken);
  const uncached = { cacheReadTokens: 0, cacheWriteTokens: 0, cacheWriteHourTokens: 0 };
  return { meter, usage: { ...usage, ...uncached, inputTokens, durationMs: Math.min(usage.durationMs, latencyMs) } };
}

/**
 * What to book for a call that was cut off before the upstream could report: the whole prompt and what was written so
 * far, by a tokenizer-free estimate that errs on the high side.
 * @param workedMs how long anybody was at work for it.
 */
export function abandonedUsage(bound: readonly MeteredUsage[], writtenBytes: number, workedMs: number): MeteredUsage[] {
  return bound.map(({ meter, usage, unwrittenTokens }, index) => ({
    meter,
    usage: cutOff(usage, unwrittenTokens ?? 0, index === 0 ? writtenBytes : 0, workedMs),
    estimated: true,
  }));
}

/** Pictures and files are booked in full: no estimate of them is on the high side but their bound. */
function cutOff(usage: Usage, unwrittenTokens: number, writtenBytes: number, workedMs: number): Usage {
  const tokensIn = (size: number) => Math.ceil(size / (bytesPerToken - 1));
  // The whole prompt is of one kind; see `promptUsage`.
  const promptIn = (bound: number) => (bound === 0 ? 0 : unwrittenTokens + tokensIn(bound - unwrittenTokens));
  return {
    ...usage,
    inputTokens: promptIn(usage.inputTokens),
    cacheWriteTokens: promptIn(usage.cacheWriteTokens),
    cacheWriteHourTokens: promptIn(usage.cacheWriteHourTokens),
    outputTokens: Math.min(usage.outputTokens, tokensIn(writtenBytes)),
    durationMs: Math.min(usage.durationMs, workedMs),
  };
}

export const least = (amounts: readonly NanoUsd[]): NanoUsd | undefined =>
  amounts.length === 0 ? undefined : nanoUsd(Math.min(...amounts));
