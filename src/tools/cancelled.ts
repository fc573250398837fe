/** The one thing that tools throw. Whatever reason a signal carries, callers see an AbortError. */
export const cancelled = (): DOMException => new DOMException('The call was cancelled.', 'AbortError');

export function throwIfCancelled(signal: AbortSignal): void {
  if (signal.aborted) throw cancelled();
}
