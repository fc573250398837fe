import { performance } from 'node:perf_hooks';

/**
 * How long one call is at work: from sending to the last byte or the failure, all attempts together; waits between them
 * do not count. What is billed by the second is billed for this.
 */
export interface CallTime {
  /** The longest that it can be, in whole milliseconds; what a hold is made for. */
  readonly longestMs: number;
  start(): void;
  stop(): void;
  /** So far; a millisecond begun is a whole one. Never above the longest, since timers of ours that fire late are nobody's work. */
  ms(): number;
}

/** @param longestMs until the call is broken off */
export function createCallTime(longestMs: number): CallTime {
  const longest = Math.max(0, Math.ceil(longestMs));
  let spentMs = 0;
  let sinceMs: number | undefined;
  const passed = () => spentMs + (sinceMs === undefined ? 0 : performance.now() - sinceMs);
  return {
    longestMs: longest,
    start: () => {
      sinceMs ??= performance.now();
    },
    stop: () => {
      spentMs = passed();
      sinceMs = undefined;
    },
    ms: () => Math.min(longest, Math.ceil(passed())),
  };
}
