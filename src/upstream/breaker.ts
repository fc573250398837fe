import {
  type CallLimits,
  type ChatEvent,
  type ChatRequest,
  type ChatUpstream,
  type FailureKind,
  UpstreamFailure,
} from './chat.ts';

export type BreakerState = 'closed' | 'open' | 'half_open';

/** `neutral`: says nothing about the upstream's health, such as a client that left or a request it rightly refused. */
export type Outcome = 'success' | 'failure' | 'neutral';

export interface Breaker {
  /** For health reports: `half_open` means that the next call decides. */
  state(): BreakerState;
  /**
   * Asks to make one call and returns how to report its outcome; only the first report counts.
   * @throws UpstreamFailure with `retryAfterMs` while the breaker is open, or half open with a trial under way. A
   * trial that never reports is given up after the longest rest.
   */
  begin(): (outcome: Outcome) => void;
  /** Opens it at once, whatever was counted: for an upstream that billed more than it was allowed. */
  trip(): void;
}

export interface BreakerOptions {
  /** Consecutive failures that open it. */
  readonly failuresToOpen: number;
  /** How long it rests after them; twice as long after each trial that fails. */
  readonly firstRestMs: number;
  /** The longest rest, and that after `trip`. */
  readonly longestRestMs: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

/**
 * Spares a sick upstream, and the caller the wait: opens after failures in a row, then lets single trials through, soon
 * at first, so that where no other upstream could answer, a short trouble does not become a long one.
 */
export function createBreaker({ failuresToOpen, firstRestMs, longestRestMs, now }: BreakerOptions): Breaker {
  let failures = 0;
  let openedAtMs: number | undefined;
  let lengthMs = 0;
  let trialSinceMs: number | undefined;
  let fault = 'failing repeatedly';

  const restMs = () => (openedAtMs === undefined ? 0 : Math.max(0, openedAtMs + lengthMs - now()));
  const state = (): BreakerState => {
    if (openedAtMs === undefined) return 'closed';
    return restMs() > 0 ? 'open' : 'half_open';
  };
  const open = (because: string, restsMs: number) => {
    fault = because;
    openedAtMs = now();
    lengthMs = Math.min(restsMs, longestRestMs);
  };
  const trialRunning = () => trialSinceMs !== undefined && now() < trialSinceMs + longestRestMs;

  function report(outcome: Outcome): void {
    if (outcome === 'neutral') return;
    if (outcome === 'success') {
      failures = 0;
      openedAtMs = undefined;
      return;
    }
    failures += 1;
    if (openedAtMs !== undefined) open('failing repeatedly', 2 * lengthMs);
    else if (failures >= failuresToOpen) open('failing repeatedly', firstRestMs);
  }

  return {
    state,
    begin() {
      const isTrial = state() === 'half_open';
      if (state() === 'open' || (isTrial && trialRunning())) {
        const retryAfterMs = Math.max(1, Math.ceil(restMs()));
        throw new UpstreamFailure('connection', `The upstream rests after ${fault}.`, { retryAfterMs });
      }
      if (isTrial) trialSinceMs = now();
      let reported = false;
      return (outcome) => {
        if (reported) return;
        reported = true;
        if (isTrial) trialSinceMs = undefined;
        // A straggler that began before the breaker opened must not close it.
        if (isTrial || state() === 'closed') report(outcome);
      };
    },
    trip: () => open('billing more than it was allowed to', longestRestMs),
  };
}

const nobodysFault: readonly FailureKind[] = ['rejected', 'schema_refused', 'context_length_exceeded', 'rate_limited'];

/** What a thrown failure says about the upstream's health. */
export function outcomeOf(thrown: unknown): Outcome {
  if (!(thrown instanceof UpstreamFailure)) return 'neutral';
  return nobodysFault.includes(thrown.kind) ? 'neutral' : 'failure';
}

/** Put it around the retries: a call counts once, however many attempts it took. */
export function withBreaker(upstream: ChatUpstream, breaker: Breaker): ChatUpstream {
  async function* complete(request: ChatRequest, limits: CallLimits): AsyncGenerator<ChatEvent, void> {
    const report = breaker.begin();
    try {
      for await (const event of upstream.complete(request, limits)) {
        if (event.type === 'end') report('success');
        yield event;
      }
    } catch (thrown) {
      report(outcomeOf(thrown));
      throw thrown;
    } finally {
      report('neutral');
    }
  }
  return { ...upstream, complete };
}
