import type { CallTime } from './call-time.ts';
import { failureOf, failureOfNetwork } from './failure.ts';

/**
 * How long one call may keep us waiting, and the one place where its end is decided. Only time spent waiting for the
 * upstream counts, so a slow reader on our side never looks like a silent upstream, and keep-alive comments buy nothing.
 */
export interface Patience {
  /** Fires when the caller cancels or patience runs out; give it to whatever does the network work. */
  readonly signal: AbortSignal;
  /**
   * Waits for one step of that work.
   * @throws AbortError when the caller cancelled, else UpstreamFailure (`timeout` when patience ran out).
   */
  during<T>(step: Promise<T>): Promise<T>;
  /** Something of the answer has arrived: from here on the pause between tokens counts, or the one given. */
  renew(pauseMs?: number): void;
  /** The call is over: stops whatever still runs for it. */
  end(): void;
}

export interface PatienceLimits {
  readonly signal: AbortSignal;
  readonly firstTokenTimeoutMs: number;
  readonly betweenTokensTimeoutMs: number;
  /** Runs until the call is over, however it ends. */
  readonly callTime?: CallTime | undefined;
}

/** Nobody sees it; without a reason of ours, every call would make up an exception with a stack. */
const callIsOver = new Error('The call is over.');

export function startPatience(limits: PatienceLimits): Patience {
  const network = new AbortController();
  const cancel = () => {
    limits.callTime?.stop();
    network.abort();
  };
  let remainingMs = limits.firstTokenTimeoutMs;
  let ranOut = false;
  limits.callTime?.start();
  if (limits.signal.aborted) cancel();
  else limits.signal.addEventListener('abort', cancel, { once: true });

  const giveUp = () => {
    ranOut = true;
    cancel();
  };

  function reasonFor(thrown: unknown): Error {
    if (limits.signal.aborted) return new DOMException('The call was cancelled.', 'AbortError');
    return ranOut ? failureOf('timeout') : failureOfNetwork(thrown);
  }

  return {
    signal: network.signal,
    async during(step) {
      const startedMs = performance.now();
      const timer = setTimeout(giveUp, Math.min(remainingMs, longestTimerMs));
      try {
        return await step;
      } catch (thrown) {
        throw reasonFor(thrown);
      } finally {
        clearTimeout(timer);
        remainingMs = Math.max(0, remainingMs - (performance.now() - startedMs));
      }
    },
    renew(pauseMs = limits.betweenTokensTimeoutMs) {
      remainingMs = pauseMs;
    },
    end() {
      limits.callTime?.stop();
      limits.signal.removeEventListener('abort', cancel);
      network.abort(callIsOver);
    },
  };
}

/** The whole of a body as text. */
export async function readText(chunks: AsyncIterable<Uint8Array>, patience: Patience): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of patiently(chunks, patience)) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

/** Once all is said, reading on only serves to reuse the connection: it is not worth a longer wait. */
export const closingPauseMs = 250;

/** Node fires longer timers at once. */
const longestTimerMs = 2 ** 31 - 1;

/** The chunks of a body, each waited for with patience. */
export async function* patiently<T>(chunks: AsyncIterable<T>, patience: Patience): AsyncGenerator<T, void> {
  const iterator = chunks[Symbol.asyncIterator]();
  for (;;) {
    const next = await patience.during(iterator.next());
    if (next.done) return;
    yield next.value;
  }
}
