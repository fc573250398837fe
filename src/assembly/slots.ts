import { type CatalogEntry, lookUp, type PriceRow } from '../cost/catalog.ts';
import { freeRates, type Rates, ratesFrom } from '../cost/rates.ts';
import { type PrivacyClass, weakestPrivacy } from '../preferences/privacy.ts';
import { type Slot, type SlotSource, sourceFacts } from '../preferences/slot.ts';
import type { Config, SlotConfig } from './config.ts';

/** Facts that hold when neither the configuration nor the price catalog says anything. */
const defaults = { contextTokens: 8192, maxOutputTokens: 4096, latencyMs: 10_000 } as const;

type ExpertSlot = Exclude<SlotConfig, { role: 'search' }>;
type SearchSlot = Extract<SlotConfig, { role: 'search' }>;

export interface SlotFacts {
  readonly slots: readonly Slot[];
  /** One line a slot whose price is found nowhere. */
  readonly problems: readonly string[];
}

/** From configuration to what limits, weights and prices can see. */
export function slotsFrom(config: Config, rows: readonly PriceRow[], atMs: number): SlotFacts {
  const problems: string[] = [];
  const catalog = ({ upstream = '', model }: ExpertSlot): CatalogEntry | undefined => {
    const address = config.upstreams[upstream]?.base_url;
    return address && model !== undefined ? lookUp(upstream, address, model, rows, atMs) : undefined;
  };
  const slots = Object.entries(config.slots).map(([id, slot]) => {
    if (slot.role === 'search') return searchSlot(id, slot, config);
    const found = catalog(slot);
    const rates = ratesOf(slot, found);
    // An upstream that does not exist is told as such elsewhere.
    if (rates === 'missing' && found) {
      problems.push(
        `slots.${id}.price: no price is known for ${slot.upstream}/${slot.model} (${found.reason}): write \`price\`, or \`price: unknown\` to serve it with its cost reported as unknown`,
      );
    }
    return expertSlot(id, slot, config, found, rates === 'missing' ? undefined : rates);
  });
  return { slots, problems };
}

function ratesOf(slot: ExpertSlot, found: CatalogEntry | undefined): Rates | undefined | 'missing' {
  if (slot.price === 'unknown') return undefined;
  if (slot.price !== undefined) return ratesFrom(slot.price);
  if (slot.local !== undefined) return freeRates;
  return found?.rates ?? 'missing';
}

function expertSlot(
  id: string,
  slot: ExpertSlot,
  config: Config,
  found: CatalogEntry | undefined,
  rates: Rates | undefined,
): Slot {
  const local = slot.local === undefined ? undefined : config.models[slot.local];
  const upstream = slot.upstream === undefined ? undefined : config.upstreams[slot.upstream];
  const isAnswer = slot.role === 'answer';
  return {
    id,
    role: slot.role,
    model: slot.local === undefined ? `${slot.upstream}/${slot.model}` : `local/${slot.local}`,
    upstream: slot.upstream ?? 'local',
    tools: slot.role === 'enhance_reasoning' ? [slot.sandbox] : [],
    quality: slot.quality,
    skills: slot.skills,
    rates,
    latencyMs: slot.latency_ms ?? defaults.latencyMs,
    privacy: upstream?.privacy ?? 'local',
    regions: upstream?.regions ?? [],
    contextTokens: slot.context ?? local?.context ?? found?.contextTokens ?? defaults.contextTokens,
    windowTokens: windowOf(slot.context, local?.context, found?.contextTokens),
    pictureTokens: slot.image_tokens,
    ...(slot.output_tokens === undefined ? {} : { typicalOutputTokens: slot.output_tokens }),
    maxOutputTokens: slot.max_output ?? (local ? Math.floor(local.context / 4) : defaults.maxOutputTokens),
    input: isAnswer ? slot.input : ['text'],
    clientTools: isAnswer && slot.tools,
    jsonSchema: isAnswer && slot.json_schema,
  };
}

/** The longest that anybody says: a slot may be given less of its model's window than the model takes. */
export function windowOf(...said: readonly (number | undefined)[]): number | undefined {
  const windows = said.filter((tokens) => tokens !== undefined);
  return windows.length === 0 ? undefined : Math.max(...windows);
}

function searchSlot(id: string, slot: SearchSlot, config: Config): Slot {
  const writer = slot.writer === undefined ? undefined : config.slots[slot.writer];
  const writerClass = writer === undefined ? 'local' : classOf(writer, config);
  return {
    id,
    role: 'search',
    model: slot.tools.join('+'),
    ...sourceFacts(slot.tools.map((name) => sourceOf(name, writerClass, config))),
    ...(slot.writer === undefined ? {} : { writer: slot.writer }),
    quality: slot.quality,
    skills: slot.skills,
    // Its sources and its writer have prices; see `config-checks.ts`.
    rates: freeRates,
    latencyMs: slot.latency_ms ?? 1000,
    regions: [],
    contextTokens: defaults.contextTokens,
    maxOutputTokens: 256,
    input: ['text'],
    clientTools: false,
    jsonSchema: false,
  };
}

/** Our own index keeps the query here; the class written beside it is that of its documents. */
function sourceOf(name: string, writerClass: PrivacyClass, { tools }: Config): SlotSource {
  const tool = tools[name];
  if (tool === undefined || tool.kind === 'local_search') return { name, upstream: 'local', privacy: writerClass };
  return { name, upstream: 'web', privacy: weakestPrivacy(tool.privacy, writerClass) };
}

function classOf(slot: SlotConfig, config: Config): PrivacyClass {
  if (slot.role === 'search') return 'any';
  return slot.upstream === undefined ? 'local' : (config.upstreams[slot.upstream]?.privacy ?? 'any');
}
