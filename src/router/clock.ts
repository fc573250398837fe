import { performance } from 'node:perf_hooks';

/** The time of one run, shared by everything it does. */
export interface RunClock {
  /** Fires when the client leaves or the deadline passes. */
  readonly signal: AbortSignal;
  readonly leftMs: () => number;
  readonly expired: () => boolean;
  readonly stop: () => void;
}

/** @param clientLeft the request's own signal. */
export function startClock(deadlineMs: number, clientLeft: AbortSignal): RunClock {
  const startedAtMs = performance.now();
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), deadlineMs);
  return {
    signal: AbortSignal.any([clientLeft, deadline.signal]),
    leftMs: () => deadlineMs - (performance.now() - startedAtMs),
    expired: () => deadline.signal.aborted,
    stop: () => clearTimeout(timer),
  };
}
