import { z } from 'zod';
import { floorUsdToNano, type NanoUsd } from '../cost/money.ts';
import { OrchestraError } from '../errors.ts';
import { nearest } from './nearest.ts';
import { type PrivacyClass, strictestPrivacy } from './privacy.ts';
import { builtInProfiles } from './profiles.ts';
import { type Ceiling, type Profile, preferencesSchema, type RequestedPreferences } from './schema.ts';
import { type WeightAxis, type Weights, weightAxes } from './weights.ts';

/** Where a limit came from, for the report. */
export type LimitSource = 'key' | 'body' | 'header' | 'metadata' | 'profile' | 'default';

export interface Limits {
  /** Of one request. */
  readonly maxCost: NanoUsd | undefined;
  /** Of a key in a UTC day. */
  readonly maxCostPerDay: NanoUsd | undefined;
  readonly maxLatencyMs: number | undefined;
  readonly maxTurns: number | undefined;
  readonly privacy: PrivacyClass;
  /** Undefined = anywhere. */
  readonly regions: readonly string[] | undefined;
  /** Each list must admit a slot; several sources may each bring one. */
  readonly allow: readonly (readonly string[])[];
  readonly deny: readonly string[];
}

/** What stands after every source was merged: the effective object that reports show. */
export interface EffectivePreferences {
  readonly profile: string;
  readonly weights: Weights;
  /** Axes whose weight is a number of the request itself; the others come from profiles and defaults. */
  readonly statedWeights: readonly WeightAxis[];
  readonly instruction: string | undefined;
  readonly limits: Limits;
  /** Which source set the limit that stands, by key of the API. */
  readonly sources: Readonly<Record<string, LimitSource>>;
  readonly onLimit: 'best_effort' | 'error';
  readonly explain: 'none' | 'summary' | 'full';
  readonly progress: 'none' | 'reasoning_content' | 'reasoning';
  readonly sessionId: string | undefined;
}

/** One place that preferences may come from, strongest first in a list. */
export interface PreferenceLayer {
  readonly source: LimitSource;
  readonly preferences: RequestedPreferences;
}

/**
 * Checks one `preferences` object.
 * @param path how the client wrote it, such as `preferences` or the header's name; starts `param`.
 * @throws OrchestraError invalid_request with the path and the nearest valid key.
 */
export function parsePreferences(value: unknown, path: string): RequestedPreferences {
  const parsed = preferencesSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw issueError(parsed.error.issues[0], path);
}

function issueError(issue: z.core.$ZodIssue | undefined, root: string): OrchestraError {
  const path = [root, ...(issue?.path ?? []).map((step) => String(step).slice(0, mostKeyLetters))].join('.');
  if (issue?.code !== 'unrecognized_keys') {
    return new OrchestraError('invalid_request', `${path}: ${issue?.message ?? 'is not valid'}.`, { param: path });
  }
  const key = (issue.keys[0] ?? '').slice(0, mostKeyLetters);
  const valid = keysAt(preferencesSchema, issue.path);
  const near = nearest(key, valid);
  const wayOut = near ? `Did you mean \`${near}\`?` : `Valid keys: ${valid.join(', ')}.`;
  const param = `${path}.${key}`;
  return new OrchestraError('invalid_request', `${param}: unknown key. ${wayOut}`, { param });
}

/** Of a key as errors repeat it: it is the client's, and may be as long as a body. */
const mostKeyLetters = 64;

function keysAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let at: unknown = schema;
  for (const step of path) {
    at = at instanceof z.ZodOptional ? at.unwrap() : at;
    at = at instanceof z.ZodObject ? at.shape[String(step)] : undefined;
  }
  at = at instanceof z.ZodOptional ? at.unwrap() : at;
  return at instanceof z.ZodObject ? Object.keys(at.shape) : [];
}

/**
 * Merges all layers under the key's ceiling. Weights and wishes come from the strongest layer that has them; hard
 * limits of every layer, and of every profile that a layer or another profile names, are intersected, so that the
 * strictest wins. Weights that nobody speaks of are as in `balanced`.
 * @param layers strongest first: body, header, metadata, model suffix, server default.
 * @throws OrchestraError invalid_request for an unknown profile.
 */
export function mergePreferences(
  layers: readonly PreferenceLayer[],
  profiles: Readonly<Record<string, Profile>>,
  ceiling: Ceiling,
): EffectivePreferences {
  const asked = layers.flatMap((layer) => [layer, ...profileOf(layer.preferences.optimize, profiles)]);
  const all = asked.some(({ source }) => source === 'profile') ? asked : [...asked, ...profileOf('balanced', profiles)];
  const first = <K extends keyof RequestedPreferences>(key: K) =>
    all.find(({ preferences }) => preferences[key] !== undefined)?.preferences[key];
  const { max_cost_usd_per_day: maxCostPerDayUsd, ...ceilingLimits } = ceiling;
  return {
    profile: first('optimize') ?? 'balanced',
    weights: mergeWeights([...all.map(({ preferences }) => preferences), ...usualWeights]),
    statedWeights: weightAxes.filter((axis) => isStated(axis, all)),
    instruction: first('instruction'),
    ...intersectLimits([{ source: 'key', preferences: ceilingLimits }, ...all], maxCostPerDayUsd),
    onLimit: first('on_limit') ?? 'best_effort',
    explain: first('explain') ?? 'none',
    progress: first('progress') ?? 'none',
    sessionId: first('session_id'),
  };
}

/** For profiles that set limits alone. */
const usualWeights = [builtInProfiles['balanced'] ?? {}];

/** A profile, and behind it those that it builds on, each once. */
function profileOf(
  name: string | undefined,
  profiles: Readonly<Record<string, Profile>>,
  before: readonly string[] = [],
): PreferenceLayer[] {
  if (name === undefined || before.includes(name)) return [];
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (!profile) throw unknownProfile(name, Object.keys(profiles));
  return [{ source: 'profile', preferences: profile }, ...profileOf(profile.optimize, profiles, [...before, name])];
}

function unknownProfile(name: string, valid: readonly string[]): OrchestraError {
  const near = nearest(name, valid);
  const wayOut = near ? `Did you mean \`${near}\`?` : `Known profiles: ${valid.join(', ')}.`;
  return new OrchestraError('invalid_request', `preferences.optimize: unknown profile \`${name}\`. ${wayOut}`, {
    param: 'preferences.optimize',
  });
}

/** Whether the weight that stands is a number of the request itself. */
function isStated(axis: WeightAxis, strongestFirst: readonly PreferenceLayer[]): boolean {
  const speaker = strongestFirst.find(({ preferences }) => preferences.weights?.[axis] !== undefined);
  return speaker !== undefined && speaker.source !== 'profile' && speaker.source !== 'default';
}

/** Key by key, the strongest layer that says something wins. */
function mergeWeights(strongestFirst: readonly RequestedPreferences[]): Weights {
  const value = (key: WeightAxis) =>
    strongestFirst.find(({ weights }) => weights?.[key] !== undefined)?.weights?.[key] ?? 0;
  const tools = Object.assign({}, ...strongestFirst.toReversed().map(({ weights }) => weights?.tools ?? {}));
  return {
    quality: value('quality'),
    cost: value('cost'),
    latency: value('latency'),
    privacy: value('privacy'),
    tools,
  };
}

function intersectLimits(
  layers: readonly PreferenceLayer[],
  maxCostPerDayUsd: number | undefined,
): Pick<EffectivePreferences, 'limits' | 'sources'> {
  const sources: Record<string, LimitSource> = {};
  const least = (key: 'max_cost_usd' | 'max_latency_ms' | 'max_turns'): number | undefined => {
    let strictest: number | undefined;
    for (const { source, preferences } of layers) {
      const value = preferences[key];
      if (value === undefined || (strictest !== undefined && value >= strictest)) continue;
      strictest = value;
      sources[key] = source;
    }
    return strictest;
  };
  const money = (usd: number | undefined) => (usd === undefined ? undefined : floorUsdToNano(usd));
  const privacy = strictestPrivacy(...layers.flatMap(({ preferences }) => preferences.privacy ?? []));
  const named = (key: string, has: (preferences: RequestedPreferences) => boolean) => {
    const layer = layers.find(({ preferences }) => has(preferences));
    if (layer) sources[key] = layer.source;
  };
  named('privacy', (preferences) => preferences.privacy === privacy);
  named('regions', (preferences) => preferences.regions !== undefined);
  named('tools', (preferences) => preferences.tools !== undefined);
  // Of a key alone: no request can ask for a day.
  if (maxCostPerDayUsd !== undefined) sources['max_cost_usd_per_day'] = 'key';
  const regionLists = layers.flatMap(({ preferences }) => (preferences.regions ? [preferences.regions] : []));
  return {
    sources,
    limits: {
      maxCost: money(least('max_cost_usd')),
      maxCostPerDay: money(maxCostPerDayUsd),
      maxLatencyMs: least('max_latency_ms'),
      maxTurns: least('max_turns'),
      privacy,
      regions: regionLists.length === 0 ? undefined : regionLists.reduce((a, b) => a.filter((r) => b.includes(r))),
      allow: layers.flatMap(({ preferences }) => (preferences.tools?.allow ? [preferences.tools.allow] : [])),
      deny: layers.flatMap(({ preferences }) => preferences.tools?.deny ?? []),
    },
  };
}
