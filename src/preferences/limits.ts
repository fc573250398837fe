import { isFree } from '../cost/rates.ts';
import { type PrivacyClass, satisfiesPrivacy } from './privacy.ts';
import type { EffectivePreferences, LimitSource, Limits } from './request.ts';
import { matchesSelector } from './selectors.ts';
import { type Modality, type Slot, sourceFacts } from './slot.ts';

/** What the request itself demands of an answering slot. */
export interface Needs {
  readonly input: readonly Modality[];
  readonly clientTools: boolean;
  readonly jsonSchema: boolean;
  /** Lower bound of the tokens that the client's messages take. */
  readonly contextTokens: number;
  /** The field whose input is as long as nobody knows before: files, films, speech. */
  readonly unsized?: string | undefined;
  /** The field that has an upstream bill more than the request's tokens: searches of its own, spoken answers. */
  readonly unpriced?: string | undefined;
}

/** One trace line: which limit removed which slots, or single sources of search slots that stay, and why. */
export interface LimitApplied {
  readonly limit: string;
  readonly value: unknown;
  readonly source: LimitSource | 'request' | 'evidence';
  readonly removed: readonly RemovedSlot[];
  /** Left out where every slot kept all its sources. */
  readonly narrowed?: readonly NarrowedSlot[];
}

interface RemovedSlot {
  readonly slot: string;
  readonly reason: string;
}

interface NarrowedSlot extends RemovedSlot {
  readonly tool: string;
}

export interface MaskedSlots {
  /** A search slot stands here with the sources that are left to it. */
  readonly admissible: readonly Slot[];
  readonly applied: readonly LimitApplied[];
}

type Objection = (slot: Slot) => string | undefined;

interface Rule {
  readonly limit: string;
  readonly value: unknown;
  readonly source: LimitApplied['source'];
  /** Why the slot falls, or undefined when it stays. */
  readonly objection: Objection;
}

/** The field that sets a limit; of those that no field sets there is none. */
export const paramOfLimit = (limit: string): { readonly param?: string } =>
  limit === 'capabilities' || limit === 'max_cost_usd_per_day' ? {} : { param: `preferences.${limit}` };

/** Removes every slot that a hard limit or the request's needs forbid. A slot is reported under the first that does. */
export function maskSlots(slots: readonly Slot[], preferences: EffectivePreferences, needs: Needs): MaskedSlots {
  const writers = new Map(slots.map((slot) => [slot.id, slot]));
  const start: MaskedSlots = { admissible: slots, applied: [] };
  return rulesFor(preferences, needs, writers).reduce(applyRule, start);
}

/** Removes what may not see a run that its evidence has made more confidential. */
export const tightenPrivacy = (slots: readonly Slot[], required: PrivacyClass): MaskedSlots =>
  applyRule({ admissible: slots, applied: [] }, privacyRule(required, 'evidence'));

function applyRule({ admissible, applied }: MaskedSlots, { objection, ...limit }: Rule): MaskedSlots {
  const verdicts = admissible.map((slot) => judge(slot, objection));
  const removed = verdicts.flatMap((verdict) => verdict.removed ?? []);
  const narrowed = verdicts.flatMap((verdict) => verdict.narrowed ?? []);
  if (removed.length + narrowed.length === 0) return { admissible, applied };
  return {
    admissible: verdicts.flatMap(({ left }) => left ?? []),
    applied: [...applied, { ...limit, removed, ...(narrowed.length === 0 ? {} : { narrowed }) }],
  };
}

interface Verdict {
  readonly left?: Slot;
  readonly removed?: RemovedSlot;
  readonly narrowed?: readonly NarrowedSlot[];
}

/** A search slot is judged source by source: it goes without those that fall, and falls with the last. */
function judge(slot: Slot, objection: Objection): Verdict {
  const { id, sources = [] } = slot;
  if (sources.length === 0) {
    const reason = objection(slot);
    return reason === undefined ? { left: slot } : { removed: { slot: id, reason } };
  }
  const fallen = sources.flatMap((source) => {
    const reason = objection({ ...slot, ...sourceFacts([source]) });
    return reason === undefined ? [] : [{ slot: id, tool: source.name, reason }];
  });
  const [first] = fallen;
  if (first === undefined) return { left: slot };
  const left = sources.filter(({ name }) => !fallen.some(({ tool }) => tool === name));
  if (left.length === 0) return { removed: { slot: id, reason: first.reason } };
  return { left: { ...slot, ...sourceFacts(left) }, narrowed: fallen };
}

function rulesFor({ limits, sources }: EffectivePreferences, needs: Needs, writers: ReadonlyMap<string, Slot>): Rule[] {
  const source = (key: string): LimitSource => sources[key] ?? 'default';
  /** Whoever writes a search slot's query sees the request, so what binds an expert binds it too. */
  const alsoWriter = (slot: Slot, objection: Objection): string | undefined => {
    const writer = writers.get(slot.writer ?? '');
    const reason = writer && objection(writer);
    return reason && `its query writer ${writer.id}: ${reason}`;
  };
  const inRegion = (slot: Slot) => regionObjection(slot, limits);
  const boundless = (slot: Slot) => moneyObjection(slot, needs);
  const { allow, deny } = limits;
  return [
    privacyRule(limits.privacy, source('privacy')),
    rule('regions', limits.regions, source('regions'), (slot) => inRegion(slot) ?? alsoWriter(slot, inRegion)),
    rule(
      'tools',
      { allow, deny },
      source('tools'),
      (slot) => selectorObjection(slot, limits) ?? alsoWriter(slot, (writer) => denial(writer, limits)),
    ),
    ...moneyRules(limits, source, (slot) => boundless(slot) ?? alsoWriter(slot, boundless)),
    rule('capabilities', needs, 'request', (slot) => capabilityObjection(slot, needs)),
  ];
}

const rule = (limit: string, value: unknown, source: Rule['source'], objection: Objection): Rule => ({
  limit,
  value,
  source,
  objection,
});

/** The limits of money that stand, each of which needs to know the most that a call may cost. */
function moneyRules({ maxCost, maxCostPerDay }: Limits, source: (key: string) => LimitSource, objection: Objection) {
  const standing = { max_cost_usd: maxCost, max_cost_usd_per_day: maxCostPerDay };
  return Object.entries(standing).flatMap(([limit, value]) =>
    value === undefined ? [] : [rule(limit, value, source(limit), objection)],
  );
}

/** Why nobody can say what a call to it costs at most. */
function moneyObjection({ role, rates, windowTokens, privacy }: Slot, needs: Needs): string | undefined {
  const { unsized, unpriced } = needs;
  if (rates === undefined) return 'its price is unknown';
  // Who gives tokens away may still bill a search; only machines of one's own bill nothing at all.
  const billsNothing = isFree(rates) && satisfiesPrivacy(privacy, 'self_hosted');
  if (unpriced !== undefined && role === 'answer' && !billsNothing) {
    return `\`${unpriced}\` may cost more than its prices say`;
  }
  if (unsized === undefined || windowTokens !== undefined || isFree(rates)) return undefined;
  return `nobody knows how much \`${unsized}\` may hold for it; its \`context\` would say`;
}

const privacyRule = (required: PrivacyClass, source: Rule['source']): Rule =>
  rule('privacy', required, source, ({ privacy }) =>
    satisfiesPrivacy(privacy, required) ? undefined : `its class is ${privacy}`,
  );

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

function selectorObjection(slot: Slot, limits: Limits): string | undefined {
  const denied = denial(slot, limits);
  if (denied !== undefined) return denied;
  const admitted = limits.allow.every((list) => list.some((selector) => matchesSelector(slot, selector)));
  return admitted ? undefined : 'not in the allow list';
}

function denial(slot: Slot, { deny }: Limits): string | undefined {
  const selector = deny.find((candidate) => matchesSelector(slot, candidate));
  return selector === undefined ? undefined : `denied by \`${selector}\``;
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
