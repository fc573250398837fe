import { LRUCache } from 'lru-cache';
import { lookUp, type PriceRow } from '../cost/catalog.ts';
import { ratesFrom } from '../cost/rates.ts';
import type { Slot } from '../preferences/slot.ts';
import type { RelayedModel, RelayedUpstream } from '../server/parts.ts';
import type { Relay } from '../upstream/relay.ts';
import type { Config, UpstreamConfig } from './config.ts';
import { relayMeter } from './prices.ts';
import { windowOf } from './slots.ts';

/** Of a model about which nothing is known: what a client may ask for, not what it can do. */
const unknownModel = { contextTokens: 1_000_000, maxOutputTokens: 16_384, latencyMs: 10_000 } as const;
/** Models with short windows write little, and refuse to be asked for more. */
const mostOutputShare = 1 / 4;
const mostRelayedModels = 1000;

/** Which models of an upstream clients may name, and what limits and prices know of them. */
export function relayedUpstream(
  name: string,
  upstream: UpstreamConfig,
  relay: Relay | undefined,
  config: Config,
  rows: readonly PriceRow[],
  now: () => number,
): RelayedUpstream | undefined {
  const patterns = config.relay.flatMap((pattern) => {
    const [owner, ...rest] = pattern.split('/');
    return owner === name ? [rest.join('/')] : [];
  });
  if (!relay || patterns.length === 0) return undefined;
  const known = new LRUCache<string, RelayedModel>({ max: mostRelayedModels });
  const find = (model: string): RelayedModel | undefined => {
    const cached = known.get(model);
    if (cached) return cached;
    if (!patterns.some((pattern) => admits(pattern, model))) return undefined;
    const slot = slotOf(name, upstream, model, config, rows, now());
    const fresh = { slot, meter: relayMeter(slot.id), upstreamModel: model };
    known.set(model, fresh);
    return fresh;
  };
  const named = Object.values(config.slots).flatMap((slot) =>
    slot.role !== 'search' && slot.upstream === name && slot.model !== undefined ? [slot.model] : [],
  );
  const exact = patterns.filter((pattern) => !pattern.includes('*'));
  const listed = [...new Set([...named, ...exact])].flatMap((model) => find(model) ?? []);
  return { relay, listed, find };
}

export const admits = (pattern: string, model: string): boolean =>
  pattern.endsWith('*') ? model.startsWith(pattern.slice(0, -1)) : pattern === model;

/** A model that is a slot too keeps the facts and the price that the operator wrote there. */
function slotOf(
  name: string,
  upstream: UpstreamConfig,
  model: string,
  config: Config,
  rows: readonly PriceRow[],
  atMs: number,
): Slot {
  const id = `${name}/${model}`;
  const { rates, contextTokens: known } = lookUp(name, upstream.base_url, model, rows, atMs);
  const contextTokens = known ?? unknownModel.contextTokens;
  const own = configured(name, model, config);
  // What speech costs nobody knows but the operator who has said that the model takes it.
  const hears = own.some((slot) => slot.role === 'answer' && slot.input.includes('audio'));
  const price = own.find((slot) => slot.price !== undefined)?.price;
  const maxOutput = own.find(({ max_output }) => max_output !== undefined)?.max_output;
  return {
    id,
    role: 'answer',
    model: id,
    upstream: name,
    tools: [],
    quality: '',
    skills: {},
    rates: price === undefined ? rates : price === 'unknown' ? undefined : ratesFrom(price),
    latencyMs: unknownModel.latencyMs,
    privacy: upstream.privacy,
    regions: upstream.regions,
    contextTokens,
    maxOutputTokens: maxOutput ?? Math.min(unknownModel.maxOutputTokens, Math.floor(contextTokens * mostOutputShare)),
    input: hears ? ['text', 'image', 'audio', 'file'] : ['text', 'image', 'file'],
    windowTokens: windowOf(known, ...own.map(({ context }) => context)),
    pictureTokens: own.find(({ image_tokens }) => image_tokens !== undefined)?.image_tokens,
    clientTools: true,
    jsonSchema: true,
  };
}

/** The slots that the operator made of this model. */
const configured = (name: string, model: string, config: Config) =>
  Object.values(config.slots).flatMap((slot) =>
    slot.role !== 'search' && slot.upstream === name && slot.model === model ? [slot] : [],
  );
