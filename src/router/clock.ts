import { performance } from 'node:perf_hooks';

/** The time of one run, shared by everything it does. */
export interface RunClock {
  /** Fires when the client leaves or the deadline passes. */
  readonly signal: AbortSignal;
  /** How long the run may take in all. */
  readonly limitMs: number;
  readonly leftMs: () => number;
  readonly expired: () => boolean;
  readonly stop: () => void;
}

/** @param clientLeft the request's own signal. */
export function startClock(deadlineMs: number, clientLeft: AbortSignal): RunClock {
  const startedAtMs = performance.now();
  // By hand, since `AbortSignal.any` costs as much as pricing a slot.
  const over = new AbortController();
  let expired = false;
  const leave = () => over.abort(clientLeft.reason);
  const timer = setTimeout(() => {
    expired = true;
    over.abort();
  }, deadlineMs);
  if (clientLeft.aborted) leave();
  else clientLeft.addEventListener('abort', leave, { once: true });
  return {
    signal: over.signal,
    limitMs: deadlineMs,
    leftMs: () => deadlineMs - (performance.now() - startedAtMs),
    expired: () => expired,
    stop: () => {
      clearTimeout(timer);
      clientLeft.removeEventListener('abort', leave);
    },
  };
}
