import type { EffectivePreferences, LimitSource } from './request.ts';

/** How an error names a limit. */
export interface LimitOrigin {
  /** Begins a sentence. */
  readonly words: string;
  /** The field that set it, where the request did. */
  readonly param?: string;
}

const elsewhere: Partial<Record<LimitSource, string>> = {
  key: "this key's ceiling",
  profile: 'the profile',
  default: "the server's defaults",
};

/** Whose limit it is: nobody should look in a request for what an operator wrote. */
export function originOf(
  limit: 'max_cost_usd' | 'max_cost_usd_per_day' | 'max_latency_ms' | 'max_turns',
  { sources }: Pick<EffectivePreferences, 'sources'>,
): LimitOrigin {
  const owner = elsewhere[sources[limit] ?? 'body'];
  if (owner !== undefined) return { words: `\`${limit}\` of ${owner}` };
  const param = `preferences.${limit}`;
  return { words: param, param };
}
