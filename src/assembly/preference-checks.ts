import { nearest } from '../preferences/nearest.ts';
import { builtInProfiles } from '../preferences/profiles.ts';
import type { Profile } from '../preferences/schema.ts';
import { matchesSelector, namesUpstream, nearestSelector } from '../preferences/selectors.ts';
import type { Slot } from '../preferences/slot.ts';
import type { Config } from './config.ts';

/**
 * Preferences that the operator writes are as strict as those of a request: a selector that names nothing would limit
 * nothing. They are checked against what is configured, since a slot may be out of order when the gateway starts.
 */
export function preferenceChecks(config: Config, slots: readonly Slot[]): string[] {
  const written: readonly (readonly [string, Profile])[] = [
    ['ceiling', withoutDay(config.ceiling)],
    ...config.server.keys.map(({ ceiling }, index) => [`server.keys.${index}.ceiling`, withoutDay(ceiling)] as const),
    ['defaults', config.defaults],
    ...Object.entries(config.profiles).map(([name, profile]) => [`profiles.${name}`, profile] as const),
  ];
  return written.flatMap(([path, preferences]) => [
    ...profileCheck(`${path}.optimize`, preferences.optimize, config),
    ...selectorsIn(path, preferences).flatMap(([at, selector]) => selectorCheck(at, selector, slots, config)),
  ]);
}

const withoutDay = ({ max_cost_usd_per_day: _, ...limits }: Config['ceiling']): Profile => limits;

function profileCheck(path: string, name: string | undefined, { profiles }: Config): string[] {
  const known = [...new Set([...Object.keys(builtInProfiles), ...Object.keys(profiles)])];
  if (name === undefined || known.includes(name)) return [];
  const near = nearest(name, known);
  return [
    `${path}: no profile is called \`${name}\`: ${near ? `did you mean \`${near}\`?` : `known: ${known.join(', ')}`}`,
  ];
}

function selectorsIn(path: string, { tools = {}, weights = {} }: Profile): (readonly [string, string])[] {
  const listed = (['allow', 'deny'] as const).flatMap((list) =>
    (tools[list] ?? []).map((selector, index) => [`${path}.tools.${list}.${index}`, selector] as const),
  );
  return [
    ...listed,
    ...Object.keys(weights.tools ?? {}).map((selector) => [`${path}.weights.tools.${selector}`, selector] as const),
  ];
}

function selectorCheck(path: string, selector: string, slots: readonly Slot[], config: Config): string[] {
  if (slots.some((slot) => matchesSelector(slot, selector)) || namesRelay(selector, config)) return [];
  const near = nearestSelector(selector, slots);
  const wayOut = near ? `did you mean \`${near}\`?` : 'name a slot, role, model, upstream or tool of this file';
  return [`${path}: \`${selector}\` matches no slot: ${wayOut}`];
}

/** Relayed models are no slots, and behind a pattern nobody can list them: their upstream must be there. */
function namesRelay(selector: string, { upstreams, relay }: Config): boolean {
  if (Object.keys(upstreams).some((name) => namesUpstream(selector, name))) return true;
  const [owner = '', ...model] = selector.replace(/^(?:slot|model):/, '').split('/');
  const relayed = relay.map((pattern) => pattern.split('/')[0] ?? '');
  return model.length > 0 && relayed.some((name) => namesUpstream(`upstream:${owner}`, name));
}
