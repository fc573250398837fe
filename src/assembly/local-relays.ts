import { freeRates, ratesFrom } from '../cost/rates.ts';
import type { Embedder } from '../inference/embedder.ts';
import type { InferenceEngine } from '../inference/engine.ts';
import type { Slot } from '../preferences/slot.ts';
import type { RelayedModel, RelayedUpstream } from '../server/parts.ts';
import { createLocalRelay, type LocalModel } from '../tools/local-relay.ts';
import type { Config } from './config.ts';
import { localExpert } from './engines.ts';
import { relayMeter } from './prices.ts';
import { admits } from './relays.ts';

/** In place of an upstream's name: `local/NAME` is a model of `models` or `embeddings`. */
export const localName = 'local';

/** Usual answers leave most of the window to the question. */
const mostOutputShare = 1 / 4;

/** Local models that clients may name, as `relay` says; undefined when there are none. */
export function localModels(
  config: Config,
  engines: ReadonlyMap<string, InferenceEngine>,
  embedders: ReadonlyMap<string, Embedder>,
): RelayedUpstream | undefined {
  const patterns = config.relay.flatMap((pattern) =>
    pattern.startsWith(`${localName}/`) ? [pattern.slice(localName.length + 1)] : [],
  );
  const served = [...writingModels(config, engines), ...embeddingModels(embedders)].filter(({ name }) =>
    patterns.some((pattern) => admits(pattern, name)),
  );
  if (served.length === 0) return undefined;
  const relay = createLocalRelay(localName, new Map(served.map(({ name, model }) => [name, model])));
  const models = new Map(
    served.map(({ name, slot }): [string, RelayedModel] => [
      name,
      { slot, meter: relayMeter(slot.id), upstreamModel: name },
    ]),
  );
  return { relay, listed: [...models.values()], find: (name) => models.get(name) };
}

interface ServedModel {
  readonly name: string;
  readonly model: LocalModel;
  readonly slot: Slot;
}

function writingModels(config: Config, engines: ReadonlyMap<string, InferenceEngine>): ServedModel[] {
  return [...engines].flatMap(([name, engine]) => {
    const expert = localExpert(name, config, engines);
    const maxOutputTokens = Math.floor(engine.info.contextTokens * mostOutputShare);
    const slot = slotOf(name, engine, maxOutputTokens, config);
    return expert ? [{ name, model: { kind: 'chat', expert, maxOutputTokens }, slot }] : [];
  });
}

const embeddingModels = (embedders: ReadonlyMap<string, Embedder>): ServedModel[] =>
  [...embedders].map(([name, embedder]) => ({
    name,
    model: { kind: 'embedding', embedder },
    slot: embeddingSlot(name, embedder),
  }));

/** What all models that run here have in common. */
const localSlot = (name: string): Omit<Slot, 'contextTokens' | 'maxOutputTokens' | 'clientTools' | 'jsonSchema'> => ({
  id: `${localName}/${name}`,
  role: 'answer',
  model: `${localName}/${name}`,
  upstream: localName,
  tools: [],
  quality: '',
  skills: {},
  rates: freeRates,
  latencyMs: 10_000,
  privacy: 'local',
  regions: [],
  input: ['text'],
});

/** A model that is a slot too has the price that the operator wrote there. */
function slotOf(name: string, { info }: InferenceEngine, maxOutputTokens: number, config: Config): Slot {
  const own = Object.values(config.slots).filter((slot) => slot.role !== 'search' && slot.local === name);
  const price = own.find((slot) => slot.price !== undefined)?.price;
  return {
    ...localSlot(name),
    rates: price === undefined ? freeRates : price === 'unknown' ? undefined : ratesFrom(price),
    contextTokens: info.contextTokens,
    maxOutputTokens,
    clientTools: info.takesTools,
    jsonSchema: true,
  };
}

const embeddingSlot = (name: string, { info }: Embedder): Slot => ({
  ...localSlot(name),
  contextTokens: info.mostTokens,
  maxOutputTokens: 0,
  clientTools: false,
  jsonSchema: false,
});
