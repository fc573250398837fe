import type { Usage } from '../cost/usage.ts';
import { objectsIn } from './objects-in.ts';
import { isObject } from './relay-request.ts';

/** The dearest way in which a request asks for its prompt to be kept: not at all, as is usual, or for an hour. */
export type CacheMark = 'none' | 'usual' | 'hour';

/** Of everything in a request that may carry marks. A lifetime that is not known counts as the dearest that is. */
export const cacheMarkIn = (value: unknown): CacheMark =>
  objectsIn(value)
    .map(({ cache_control }) => ownMark(cache_control))
    .reduce((left, right) => dearestMark(left, right), 'none');

function ownMark(mark: unknown): CacheMark {
  if (!isObject(mark)) return 'none';
  return mark['ttl'] === undefined || mark['ttl'] === null || mark['ttl'] === '5m' ? 'usual' : 'hour';
}

export function dearestMark(...marks: readonly CacheMark[]): CacheMark {
  if (marks.includes('hour')) return 'hour';
  return marks.includes('usual') ? 'usual' : 'none';
}

/** A prompt as the dearest kind of input that it may be billed as. */
export function promptUsage(tokens: number, mark: CacheMark): Partial<Usage> {
  if (mark === 'hour') return { cacheWriteHourTokens: tokens };
  return mark === 'usual' ? { cacheWriteTokens: tokens } : { inputTokens: tokens };
}

/** Upstreams that do not tell writes apart by lifetime get the benefit of none: all count as the dearest asked for. */
export function agedWrites(usage: Usage, mark: CacheMark): Usage {
  if (mark !== 'hour') return usage;
  const { cacheWriteTokens, cacheWriteHourTokens } = usage;
  return { ...usage, cacheWriteTokens: 0, cacheWriteHourTokens: cacheWriteHourTokens + cacheWriteTokens };
}
