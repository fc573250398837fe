import { setTimeout as wait } from 'node:timers/promises';
import {
  type CallLimits,
  type ChatEvent,
  type ChatRequest,
  type ChatUpstream,
  type FailureKind,
  UpstreamFailure,
} from './chat.ts';

export interface RetryPolicy {
  /** The first one included. */
  readonly attempts: number;
  /** Doubles with every attempt; the actual delay is a random part of it, so that callers do not return in step. */
  readonly baseDelayMs: number;
  /** Also of what an upstream asks for: others may be free meanwhile. */
  readonly maxDelayMs: number;
  readonly clock?: RetryClock;
}

/** What the passing of time looks like; tests bring their own. */
interface RetryClock {
  now(): number;
  /** From 0 up to 1. */
  random(): number;
  sleep(delayMs: number, signal: AbortSignal): Promise<void>;
}

const realClock: RetryClock = {
  now: () => performance.now(),
  random: () => Math.random(),
  sleep: (delayMs, signal) => wait(delayMs, undefined, { signal }),
};

/**
 * Silence is not among them: after so long, an upstream is more likely to be thinking, and billing, than dead. Nor is an
 * answer that began and was cut, even before its first token: its prompt was read, and is booked.
 */
const retryable: readonly FailureKind[] = ['rate_limited', 'server_error', 'connection'];

/**
 * Tries again while nothing has reached the caller, all attempts together within the time to the first token. A failed
 * attempt that was billed, or may have been, is final: the money held for a call covers one answer.
 */
export function withRetries(upstream: ChatUpstream, policy: RetryPolicy): ChatUpstream {
  const clock = policy.clock ?? realClock;

  /** Undefined: trying again is pointless, or there is no time left for it. */
  function delayBefore(attempt: number, failure: UpstreamFailure, remainingMs: number): number | undefined {
    if (attempt > policy.attempts || !retryable.includes(failure.kind) || failure.usage) return undefined;
    const ceilingMs = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 2));
    const delayMs = failure.retryAfterMs ?? clock.random() * ceilingMs;
    return delayMs <= policy.maxDelayMs && delayMs < remainingMs ? delayMs : undefined;
  }

  /** The first attempt that comes to its first event. */
  async function begin(request: ChatRequest, limits: CallLimits) {
    const deadlineMs = clock.now() + limits.firstTokenTimeoutMs;
    for (let attempt = 1; ; attempt += 1) {
      const remainingMs = Math.max(1, deadlineMs - clock.now());
      const call = upstream.complete(request, { ...limits, firstTokenTimeoutMs: remainingMs });
      const events = call[Symbol.asyncIterator]();
      try {
        return { events, first: await events.next() };
      } catch (thrown) {
        if (!(thrown instanceof UpstreamFailure)) throw thrown;
        const delayMs = delayBefore(attempt + 1, thrown, deadlineMs - clock.now());
        if (delayMs === undefined) throw thrown;
        await clock.sleep(delayMs, limits.signal);
      }
    }
  }

  async function* complete(request: ChatRequest, limits: CallLimits): AsyncGenerator<ChatEvent, void> {
    const { events, first } = await begin(request, limits);
    try {
      for (let next = first; !next.done; next = await events.next()) yield next.value;
    } finally {
      await events.return?.();
    }
  }

  return { ...upstream, complete };
}
