import { z } from 'zod';
import { decimalToInteger } from '../cost/money.ts';
import { OrchestraError } from '../errors.ts';
import type { PreferenceLayer } from '../preferences/request.ts';
import type { RequestedPreferences } from '../preferences/schema.ts';
import { matchesSelector } from '../preferences/selectors.ts';
import type { Slot } from '../preferences/slot.ts';
import type { RunWarning } from '../router/run.ts';

/** Far more than there are. */
const providerNames = z.array(z.string().max(200)).max(256).nullish();

/** The part of OpenRouter's `provider` object that has a meaning here. */
const providerSchema = z.looseObject({
  sort: z.unknown().optional(),
  data_collection: z.enum(['allow', 'deny']).nullish(),
  zdr: z.boolean().nullish(),
  only: providerNames,
  ignore: providerNames,
  max_price: z.record(z.string(), z.union([z.number(), z.string()])).nullish(),
});
type Provider = z.infer<typeof providerSchema>;

const sortProfiles: ReadonlyMap<unknown, string> = new Map([
  ['price', 'cheap'],
  ['throughput', 'fast'],
  ['latency', 'fast'],
]);

/**
 * Reads OpenRouter's `provider` as preferences. Its limits bind like ours and a wrong type is refused; its other keys
 * are ignored with a warning. Its names follow OpenRouter's list, so one that is not configured here is no mistake.
 */
export function openRouterProvider(value: unknown, slots: readonly Slot[], warnings: RunWarning[]): PreferenceLayer[] {
  if (!isPresent(value)) return [];
  const parsed = providerSchema.safeParse(value);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw invalidField(['provider', ...(issue?.path ?? [])].join('.'), issue?.message ?? 'is not valid');
  }
  warnings.push(...ignoredKeys(parsed.data));
  const optimize = sortProfiles.get(parsed.data.sort);
  const privacy = privacyOf(parsed.data);
  const tools = selectorsOf(parsed.data, slots);
  const preferences: RequestedPreferences = {
    ...(optimize && { optimize }),
    ...(privacy && { privacy }),
    ...(tools && { tools }),
  };
  return [{ source: 'body', preferences }];
}

function ignoredKeys(provider: Provider): RunWarning[] {
  const { sort, data_collection, zdr, only, ignore, max_price, ...rest } = provider;
  const keys = Object.keys(rest);
  if (isPresent(sort) && !sortProfiles.has(sort)) keys.push('sort');
  const unknownPrices = Object.keys(max_price ?? {}).filter((key) => !Object.hasOwn(priceDigits, key));
  keys.push(...unknownPrices.map((key) => `max_price.${key}`));
  // Warnings are kept with the record, and OpenRouter knows about a dozen keys.
  return keys.slice(0, mostIgnoredKeys).map((key) => {
    const message = `\`provider.${key.slice(0, mostKeyLetters)}\` was ignored.`;
    return { code: 'ignored_field', message };
  });
}

const mostIgnoredKeys = 16;
const mostKeyLetters = 64;

function privacyOf({ zdr, data_collection }: Provider): RequestedPreferences['privacy'] {
  if (zdr === true) return 'zdr';
  return data_collection === 'deny' ? 'no_training' : undefined;
}

function selectorsOf({ only, ignore, max_price }: Provider, slots: readonly Slot[]): RequestedPreferences['tools'] {
  const configured = (names: readonly string[]) =>
    names.map((name) => `upstream:${name}`).filter((name) => slots.some((slot) => matchesSelector(slot, name)));
  const deny = [...configured(ignore ?? []), ...dearerSlots(slots, max_price ?? {}).map(({ id }) => `slot:${id}`)];
  if (!only && deny.length === 0) return undefined;
  return { ...(only && { allow: configured(only) }), deny };
}

/** Units of `max_price`, with the digits that their rates are kept in: US dollars per million tokens, and per call. */
const priceDigits = { prompt: 9, completion: 9, request: 15 } as const;

/** A slot whose price is unknown cannot be known to keep to any. */
function dearerSlots(slots: readonly Slot[], limits: Readonly<Record<string, number | string>>): Slot[] {
  const prompt = unitPrice(limits, 'prompt');
  const completion = unitPrice(limits, 'completion');
  const request = unitPrice(limits, 'request');
  const exceeds = (rate: bigint | undefined, limit: bigint | undefined) =>
    limit !== undefined && (rate === undefined || rate > limit);
  return slots.filter(
    ({ rates }) => exceeds(rates?.input, prompt) || exceeds(rates?.output, completion) || exceeds(rates?.call, request),
  );
}

function unitPrice(
  limits: Readonly<Record<string, number | string>>,
  key: keyof typeof priceDigits,
): bigint | undefined {
  const value = limits[key];
  if (value === undefined) return undefined;
  try {
    return decimalToInteger(value, priceDigits[key]);
  } catch {
    throw invalidField(`provider.max_price.${key}`, 'must be a price in US dollars');
  }
}

export const isPresent = (value: unknown): boolean => value !== undefined && value !== null;

export const invalidField = (param: string, what: string) =>
  new OrchestraError('invalid_request', `${param}: ${what}.`, { param });
