import { calcPrice, findProvider, type MatchLogic, type ModelInfo, type ModelPrice } from '@pydantic/genai-prices';
import { type Rates, ratesFrom } from './rates.ts';

/** A price that our own table adds to genai-prices. */
export interface PriceRow {
  /** `UPSTREAM/MODEL`, exact. */
  readonly key: string;
  readonly unit: 'mtok_in' | 'mtok_out' | 'mtok_cache_read' | 'mtok_cache_write' | 'call' | 'second';
  readonly usd: string;
  /** ISO dates; `to` is exclusive. */
  readonly from: string;
  readonly to?: string | undefined;
  readonly source: string;
}

export interface CatalogEntry {
  readonly rates: Rates | undefined;
  readonly contextTokens: number | undefined;
  /** Why there is no price, where there is none. */
  readonly reason: string | undefined;
}

/**
 * Looks a price up by exact name: our own rows first, then genai-prices by the upstream's address. Only rates are
 * taken from there; its own arithmetic is floating point.
 */
export function lookUp(
  upstream: string,
  baseUrl: string,
  model: string,
  rows: readonly PriceRow[],
  atMs: number,
): CatalogEntry {
  const own = ownRates(`${upstream}/${model}`, rows, new Date(atMs).toISOString().slice(0, 10));
  const info = findModel(baseUrl, model);
  const contextTokens = info?.model.context_window;
  if (own) return { rates: own, contextTokens, reason: undefined };
  if (!info) return { rates: undefined, contextTokens, reason: 'genai-prices does not list it under this exact name' };
  if (dependsOnTheHour(info.model))
    return { rates: undefined, contextTokens, reason: 'its price changes with the hour' };
  const found = calcPrice({}, info.model.id, { provider: info.provider, timestamp: new Date(atMs) });
  if (!found) return { rates: undefined, contextTokens, reason: 'genai-prices has no price for it now' };
  const uncounted = uncountedUnits.find((unit) => found.model_price[unit] !== undefined);
  if (uncounted) return { rates: undefined, contextTokens, reason: `its \`${uncounted}\` is not counted here` };
  return { rates: ratesOf(found.model_price), contextTokens, reason: undefined };
}

/** Tokens at prices of their own that upstreams report among all others: booked like text they would be too cheap. */
const uncountedUnits = [
  'input_image_mtok',
  'input_video_mtok',
  'output_image_mtok',
  'output_video_mtok',
  'output_citation_mtok',
];

function ownRates(key: string, rows: readonly PriceRow[], today: string): Rates | undefined {
  const valid = rows.filter((row) => row.key === key && row.from <= today && (row.to === undefined || today < row.to));
  if (valid.length === 0) return undefined;
  const usd = (unit: PriceRow['unit']) => valid.find((row) => row.unit === unit)?.usd;
  return ratesFrom({
    input: usd('mtok_in'),
    output: usd('mtok_out'),
    cache_read: usd('mtok_cache_read'),
    cache_write: usd('mtok_cache_write'),
    per_call: usd('call'),
    per_second: usd('second'),
  });
}

function findModel(baseUrl: string, model: string) {
  const provider = findProvider({ providerApiUrl: baseUrl });
  const found = provider?.models.find(({ id, match }) => id === model || equals(match, model));
  return provider && found ? { provider, model: found } : undefined;
}

/** Exact alternatives only: a name that merely looks alike may have another price. */
function equals(match: MatchLogic, model: string): boolean {
  if ('equals' in match) return match.equals === model;
  return 'or' in match && match.or.some((alternative) => equals(alternative, model));
}

const dependsOnTheHour = ({ prices }: ModelInfo): boolean =>
  Array.isArray(prices) && prices.some(({ constraint }) => constraint?.type === 'time_of_date');

/** The base price, and a dearer one for each input length at which the whole request changes tier. */
function ratesOf(price: ModelPrice): Rates {
  const starts = new Set(
    Object.values(price).flatMap((entry) => (isTiered(entry) ? entry.tiers.map(({ start }) => start) : [])),
  );
  const tiers = [...starts].sort((left, right) => left - right);
  return {
    ...ratesFrom(priceAt(price, 0)),
    tiers: tiers.map((start) => ({ aboveInputTokens: start, rates: ratesFrom(priceAt(price, start + 1)) })),
  };
}

function priceAt(price: ModelPrice, inputTokens: number) {
  const at = (key: string): number | undefined => {
    const entry = price[key];
    if (!isTiered(entry)) return entry;
    return (
      entry.tiers.filter(({ start }) => inputTokens > start).sort((a, b) => b.start - a.start)[0]?.price ?? entry.base
    );
  };
  return {
    input: at('input_mtok'),
    output: at('output_mtok'),
    cache_read: at('cache_read_mtok'),
    cache_write: at('cache_write_mtok'),
    per_call: (at('requests_kcount') ?? 0) / 1_000,
  };
}

const isTiered = (entry: ModelPrice[string]): entry is Exclude<ModelPrice[string], number | undefined> =>
  typeof entry === 'object';
