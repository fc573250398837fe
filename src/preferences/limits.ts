import { satisfiesPrivacy } from './privacy.ts';
import type { EffectivePreferences, LimitSource, Limits } from './request.ts';
import { matchesSelector } from './selectors.ts';
import type { Modality, Slot } from './slot.ts';

/** What the request itself demands of an answering slot. */
export interface Needs {
  readonly input: readonly Modality[];
  readonly clientTools: boolean;
  readonly jsonSchema: boolean;
  /** Lower bound of the tokens that the client's messages take. */
  readonly contextTokens: number;
}

/** One trace line: which limit removed which slots, and why. */
export interface LimitApplied {
  readonly limit: string;
  readonly value: unknown;
  readonly source: LimitSource | 'request' | 'evidence';
  readonly removed: readonly { readonly slot: string; readonly reason: string }[];
}

export interface MaskedSlots {
  readonly admissible: readonly Slot[];
  readonly applied: readonly LimitApplied[];
}

interface Rule {
  readonly limit: string;
  readonly value: unknown;
  readonly source: LimitApplied['source'];
  /** Why the slot falls, or undefined when it stays. */
  readonly objection: (slot: Slot) => string | undefined;
}

/** Removes every slot that a hard limit or the request's needs forbid. A slot is reported under the first that does. */
export function maskSlots(slots: readonly Slot[], preferences: EffectivePreferences, needs: Needs): MaskedSlots {
  const applied: LimitApplied[] = [];
  let left = slots;
  for (const { limit, value, source, objection } of rulesFor(preferences, needs)) {
    const removed = left.flatMap((slot) => {
      const reason = objection(slot);
      return reason === undefined ? [] : [{ slot: slot.id, reason }];
    });
    if (removed.length === 0) continue;
    applied.push({ limit, value, source, removed });
    left = left.filter(({ id }) => !removed.some(({ slot }) => slot === id));
  }
  return { admissible: left, applied };
}

function rulesFor({ limits, sources }: EffectivePreferences, needs: Needs): Rule[] {
  const source = (key: string): LimitSource => sources[key] ?? 'default';
  return [
    rule('privacy', limits.privacy, source('privacy'), ({ privacy }) =>
      satisfiesPrivacy(privacy, limits.privacy) ? undefined : `its class is ${privacy}`,
    ),
    rule('regions', limits.regions, source('regions'), (slot) => regionObjection(slot, limits)),
    rule('tools', { allow: limits.allow, deny: limits.deny }, source('tools'), (slot) =>
      selectorObjection(slot, limits),
    ),
    rule('max_cost_usd', limits.maxCost, source('max_cost_usd'), ({ rates }) =>
      limits.maxCost !== undefined && rates === undefined ? 'its price is unknown' : undefined,
    ),
    rule('capabilities', needs, 'request', (slot) => capabilityObjection(slot, needs)),
  ];
}

const rule = (
  limit: string,
  value: unknown,
  source: Rule['source'],
  objection: (slot: Slot) => string | undefined,
): Rule => ({ limit, value, source, objection });

/** Why somebody who would see the request may not, by the limit on regions. */
export function regionObjection(
  { upstream, regions }: Pick<Slot, 'upstream' | 'regions'>,
  limits: Pick<Limits, 'regions'>,
): string | undefined {
  if (limits.regions === undefined || upstream === 'local') return undefined;
  if (regions.length === 0) return 'its region is not declared';
  const outside = regions.filter((region) => !limits.regions?.includes(region));
  return outside.length === 0 ? undefined : `it may use ${outside.join(', ')}`;
}

/** A search slot falls with the last of its sources; until then it goes without those that are forbidden. */
function selectorObjection(slot: Slot, limits: Limits): string | undefined {
  if (slot.role !== 'search' || slot.tools.length === 0) return objectionTo(slot, limits);
  const objections = slot.tools.map((tool) => objectionTo(withOnly(tool, slot), limits));
  return objections.includes(undefined) ? undefined : objections[0];
}

/** Whether the caller's selectors let this slot use one of its tools. */
export const admitsTool = (tool: string, slot: Slot, limits: Limits): boolean =>
  objectionTo(withOnly(tool, slot), limits) === undefined;

const withOnly = (tool: string, slot: Slot): Slot => ({ ...slot, tools: [tool] });

function objectionTo(slot: Slot, { allow, deny }: Limits): string | undefined {
  const denied = deny.find((selector) => matchesSelector(slot, selector));
  if (denied !== undefined) return `denied by \`${denied}\``;
  const admitted = allow.every((list) => list.some((selector) => matchesSelector(slot, selector)));
  return admitted ? undefined : 'not in the allow list';
}

/** Search and calculation see text only, so they are asked for context alone. */
function capabilityObjection(slot: Slot, needs: Needs): string | undefined {
  if (slot.role !== 'answer') return undefined;
  const missing = needs.input.filter((kind) => !slot.input.includes(kind));
  if (missing.length > 0) return `cannot read ${missing.join(', ')}`;
  if (needs.clientTools && !slot.clientTools) return 'cannot call client tools';
  if (needs.jsonSchema && !slot.jsonSchema) return 'cannot hold to a JSON schema';
  if (needs.contextTokens >= slot.contextTokens) return `its context is ${slot.contextTokens} tokens`;
  return undefined;
}
