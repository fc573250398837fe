import { EngineFailure } from './engine.ts';

/** What a fired signal means: the engine's own reason where it fired it, an AbortError whatever else was the reason. */
export const cancellation = (signal: AbortSignal): Error =>
  signal.reason instanceof EngineFailure
    ? signal.reason
    : new DOMException('the inference request was cancelled', 'AbortError');

export function throwIfCancelled(signal: AbortSignal): void {
  if (signal.aborted) throw cancellation(signal);
}
