import type { IncomingHttpHeaders } from 'node:http';
import { OrchestraError } from '../errors.ts';
import {
  type EffectivePreferences,
  mergePreferences,
  type PreferenceLayer,
  parsePreferences,
} from '../preferences/request.ts';
import { preferencesSchema, type RequestedPreferences } from '../preferences/schema.ts';
import { checkSelector } from '../preferences/selectors.ts';
import type { Slot } from '../preferences/slot.ts';
import type { RunWarning } from '../router/run.ts';
import type { Caller } from './auth.ts';
import { parseJson } from './json.ts';
import { invalidField, isPresent, openRouterProvider } from './openrouter-provider.ts';
import type { ServerParts } from './parts.ts';

export interface PreferenceSources {
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: IncomingHttpHeaders;
  readonly caller: Caller;
  /** The suffix of `orchestra:NAME`. */
  readonly profile?: string | undefined;
  /** What selectors may name: the loop's slots and, of a relay, its model. */
  readonly slots: readonly Slot[];
}

export interface CallerPreferences {
  readonly preferences: EffectivePreferences;
  readonly warnings: readonly RunWarning[];
}

const preferencesHeader = 'x-orchestra-preferences';
const mostHeaderBytes = 4096;

/**
 * Collects what the caller wants from every place where clients can say it, strongest first, and merges it under the
 * key's ceiling.
 * @throws OrchestraError invalid_request that names the place.
 */
export function collectPreferences(sources: PreferenceSources, parts: ServerParts): CallerPreferences {
  const { body, headers, caller, profile, slots } = sources;
  const warnings: RunWarning[] = [];
  const layers: PreferenceLayer[] = [
    ...inBody(body, slots),
    ...openRouterProvider(body['provider'], slots, warnings),
    ...inHeader(headers[preferencesHeader], slots),
    ...inMetadata(body['metadata'], slots),
    ...(profile === undefined ? [] : [{ source: 'profile' as const, preferences: { optimize: profile } }]),
    ...serviceTier(body['service_tier']),
    { source: 'default', preferences: parts.defaultPreferences },
  ];
  return { preferences: mergePreferences(layers, parts.profiles, caller.ceiling), warnings };
}

/** Checks one object as the client wrote it, its selectors too. */
function requested(value: unknown, path: string, slots: readonly Slot[]): RequestedPreferences {
  const preferences = parsePreferences(value, path);
  const { tools = {}, weights = {} } = preferences;
  for (const [index, selector] of (tools.allow ?? []).entries()) {
    checkSelector(selector, slots, `${path}.tools.allow.${index}`);
  }
  for (const [index, selector] of (tools.deny ?? []).entries()) {
    checkSelector(selector, slots, `${path}.tools.deny.${index}`);
  }
  for (const selector of Object.keys(weights.tools ?? {})) {
    checkSelector(selector, slots, `${path}.weights.tools.${selector}`);
  }
  return preferences;
}

function inBody(body: Readonly<Record<string, unknown>>, slots: readonly Slot[]): PreferenceLayer[] {
  const layers: PreferenceLayer[] = [];
  if (isPresent(body['preferences'])) {
    layers.push({ source: 'body', preferences: requested(body['preferences'], 'preferences', slots) });
  }
  if (isPresent(body['max_cost'])) {
    const maxCost = preferencesSchema.shape.max_cost_usd.safeParse(body['max_cost']);
    if (!maxCost.success) throw invalidField('max_cost', 'must be a number of US dollars, at most a million');
    layers.push({ source: 'body', preferences: { max_cost_usd: maxCost.data } });
  }
  return layers;
}

function inHeader(value: string | string[] | undefined, slots: readonly Slot[]): PreferenceLayer[] {
  if (typeof value !== 'string' || value.trim() === '') return [];
  if (value.length > mostHeaderBytes) throw invalidField(preferencesHeader, `is longer than ${mostHeaderBytes} bytes`);
  const text = value.trim().startsWith('{') ? value : Buffer.from(value, 'base64url').toString('utf8');
  return [{ source: 'header', preferences: requested(headerJson(text), preferencesHeader, slots) }];
}

function headerJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    throw invalidField(preferencesHeader, 'is neither JSON nor base64url of JSON');
  }
}

export const metadataPrefix = 'orchestra_';

/** For clients whose types admit nothing but `metadata`: its values are strings, so JSON is read where it is some. */
function inMetadata(metadata: unknown, slots: readonly Slot[]): PreferenceLayer[] {
  if (typeof metadata !== 'object' || metadata === null) return [];
  const ours = Object.entries(metadata).filter(([key]) => key.startsWith(metadataPrefix));
  if (ours.length === 0) return [];
  const value = Object.fromEntries(ours.map(([key, text]) => [key.slice(metadataPrefix.length), jsonOrText(text)]));
  try {
    return [{ source: 'metadata', preferences: requested(value, 'metadata', slots) }];
  } catch (error) {
    throw error instanceof OrchestraError ? withPrefix(error) : error;
  }
}

/** Names the key as the client wrote it. */
function withPrefix({ message, param = '' }: OrchestraError): OrchestraError {
  const written = param.replace('metadata.', `metadata.${metadataPrefix}`);
  return new OrchestraError('invalid_request', message.replace(param, written), { param: written });
}

function jsonOrText(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function serviceTier(tier: unknown): PreferenceLayer[] {
  const optimize = tier === 'flex' ? 'cheap' : tier === 'priority' ? 'fast' : undefined;
  return optimize === undefined ? [] : [{ source: 'profile', preferences: { optimize } }];
}
