import { freeRates, ratesFrom } from '../cost/rates.ts';
import type { InferenceEngine } from '../inference/engine.ts';
import type { Slot } from '../preferences/slot.ts';
import type { RelayedModel, RelayedUpstream } from '../server/parts.ts';
import { createLocalExpert } from '../tools/local-expert.ts';
import { createLocalRelay } from '../tools/local-relay.ts';
import type { Config } from './config.ts';
import { relayMeter } from './prices.ts';
import { admits } from './relays.ts';

/** In place of an upstream's name: `local/NAME` is a model of `models`. */
export const localName = 'local';

/** Usual answers leave most of the window to the question. */
const mostOutputShare = 1 / 4;

/** Local models that clients may name, as `relay` says; undefined when there are none. */
export function localModels(
  config: Config,
  engines: ReadonlyMap<string, InferenceEngine>,
): RelayedUpstream | undefined {
  const patterns = config.relay.flatMap((pattern) =>
    pattern.startsWith(`${localName}/`) ? [pattern.slice(localName.length + 1)] : [],
  );
  const served = [...engines].filter(([name]) => patterns.some((pattern) => admits(pattern, name)));
  if (served.length === 0) return undefined;
  const outputTokens = ({ info }: InferenceEngine) => Math.floor(info.contextTokens * mostOutputShare);
  const relay = createLocalRelay(
    localName,
    new Map(
      served.map(([name, engine]) => [
        name,
        { expert: createLocalExpert(engine), maxOutputTokens: outputTokens(engine) },
      ]),
    ),
  );
  const models = new Map(
    served.map(([name, engine]): [string, RelayedModel] => {
      const slot = slotOf(name, engine, outputTokens(engine), config);
      return [name, { slot, meter: relayMeter(slot.id), upstreamModel: name }];
    }),
  );
  return { relay, listed: [...models.values()], find: (name) => models.get(name) };
}

/** A model that is a slot too has the price that the operator wrote there. */
function slotOf(name: string, { info }: InferenceEngine, maxOutputTokens: number, config: Config): Slot {
  const id = `${localName}/${name}`;
  const own = Object.values(config.slots).filter((slot) => slot.role !== 'search' && slot.local === name);
  const price = own.find((slot) => slot.price !== undefined)?.price;
  return {
    id,
    role: 'answer',
    model: id,
    upstream: localName,
    tools: [],
    quality: '',
    skills: {},
    rates: price === undefined ? freeRates : price === 'unknown' ? undefined : ratesFrom(price),
    latencyMs: 10_000,
    privacy: 'local',
    regions: [],
    contextTokens: info.contextTokens,
    maxOutputTokens,
    input: ['text'],
    clientTools: info.takesTools,
    jsonSchema: true,
  };
}
