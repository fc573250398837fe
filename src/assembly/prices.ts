import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { PriceRow } from '../cost/catalog.ts';
import type { MeterPrice, PriceBook } from '../cost/price-book.ts';
import { freeRates, ratesFrom } from '../cost/rates.ts';
import type { Slot } from '../preferences/slot.ts';
import { policyMeter } from '../router/ask-policy.ts';
import { bundledModel, type Config } from './config.ts';

const priceRows = z.array(
  z.strictObject({
    key: z.string(),
    unit: z.enum(['mtok_in', 'mtok_out', 'mtok_cache_read', 'mtok_cache_write', 'call', 'second']),
    usd: z.string(),
    from: z.iso.date(),
    to: z.iso.date().optional(),
    source: z.string(),
  }),
);

/** models/prices.json: what genai-prices lacks. */
export function readPriceRows(): readonly PriceRow[] {
  const file = fileURLToPath(new URL('../../models/prices.json', import.meta.url));
  return priceRows.parse(JSON.parse(readFileSync(file, 'utf8')));
}

export const toolMeter = (name: string): string => `tool:${name}`;
const relayPrefix = 'relay:';
export const relayMeter = (model: string): string => `${relayPrefix}${model}`;

/** The configured name of the upstream that bills under this meter; undefined for tools and what runs here. */
export function upstreamBehind(meter: string, { policy, slots }: Config): string | undefined {
  if (meter === policyMeter) return policy.upstream;
  if (meter.startsWith(relayPrefix)) return meter.slice(relayPrefix.length).split('/')[0];
  const slot = slots[meter];
  return slot === undefined || slot.role === 'search' ? undefined : slot.upstream;
}

/** Names come from clients, so what is remembered of them is bounded. */
const mostRelayedModels = 1000;

/** @param relayed looks up the facts of a relayed `UPSTREAM/MODEL`. */
export function createPriceBook(
  config: Config,
  slots: readonly Slot[],
  relayed: (model: string) => Slot | undefined,
): PriceBook {
  const book = new Map<string, MeterPrice>();
  for (const { id, model, rates } of slots) book.set(id, { rates, label: model, kind: 'model' });
  for (const [name, { price }] of Object.entries(config.tools)) {
    book.set(toolMeter(name), { rates: price ? ratesFrom(price) : freeRates, label: name, kind: 'tool' });
  }
  const { price, upstream, backend } = config.policy;
  const { model = backend === 'bundled' ? bundledModel : backend } = config.policy;
  const label = upstream === undefined ? model : `${upstream}/${model}`;
  book.set(policyMeter, { rates: price ? ratesFrom(price) : freeRates, label, kind: 'policy' });
  const found = new LRUCache<string, MeterPrice>({ max: mostRelayedModels });
  return {
    get: (meter) => {
      const known = book.get(meter) ?? found.get(meter);
      if (known || !meter.startsWith(relayPrefix)) return known;
      const slot = relayed(meter.slice(relayPrefix.length));
      if (!slot) return undefined;
      const fresh: MeterPrice = { rates: slot.rates, label: slot.model, kind: 'model' };
      found.set(meter, fresh);
      return fresh;
    },
  };
}
