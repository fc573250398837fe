import type { Token } from 'node-llama-cpp';
import { cancellation, throwIfCancelled } from './cancellation.ts';
import { EngineFailure } from './engine.ts';
import type { Sequence } from './sequence.ts';

/** A sequence of one's own until it is released. */
export interface Lease {
  readonly sequence: Sequence;
  /** Fires when the request is cancelled, and when the engine closes. */
  readonly signal: AbortSignal;
  release(): void;
}

/** Hands each request a sequence; those who find none free wait in line, and the line has an end. */
export class SequencePool {
  readonly #free: Sequence[];
  readonly #waiting: ((sequence: Sequence) => void)[] = [];
  readonly #longestLine: number;
  readonly #closing = new AbortController();
  readonly #leases = new Set<Promise<void>>();

  constructor(sequences: readonly Sequence[], longestLine: number) {
    this.#free = [...sequences];
    this.#longestLine = longestLine;
  }

  /** For work that needs no sequence but the model behind them. */
  throwIfClosed(): void {
    throwIfCancelled(this.#closing.signal);
  }

  async acquire(tokens: readonly Token[], requestSignal: AbortSignal): Promise<Lease> {
    const signal = AbortSignal.any([requestSignal, this.#closing.signal]);
    throwIfCancelled(signal);
    const sequence = this.#takeBest(tokens) ?? (await this.#waitInLine(signal));
    let settle = () => {};
    const lease = new Promise<void>((resolve) => {
      settle = resolve;
    });
    this.#leases.add(lease);
    const release = () => {
      this.#leases.delete(lease);
      this.#giveBack(sequence);
      settle();
    };
    return { sequence, signal, release };
  }

  /** Ends all leases and waits for them: native memory that goes under a running generator ends the process. */
  async close(): Promise<void> {
    this.#closing.abort(new EngineFailure('unavailable', 'the engine is closed'));
    await Promise.all(this.#leases);
  }

  /** The free sequence that holds most of `tokens`; of equals the one that has been free for longest. */
  #takeBest(tokens: readonly Token[]): Sequence | undefined {
    const [first, ...others] = this.#free;
    if (first === undefined) return undefined;
    const best = others.reduce(
      (chosen, candidate) => (candidate.cachedPrefix(tokens) > chosen.cachedPrefix(tokens) ? candidate : chosen),
      first,
    );
    this.#free.splice(this.#free.indexOf(best), 1);
    return best;
  }

  #giveBack(sequence: Sequence): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(sequence);
    else next(sequence);
  }

  #waitInLine(signal: AbortSignal): Promise<Sequence> {
    if (this.#waiting.length >= this.#longestLine) {
      throw new EngineFailure('busy', `${this.#longestLine} requests are waiting for this model already`);
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(take), 1);
        reject(cancellation(signal));
      };
      const take = (sequence: Sequence) => {
        signal.removeEventListener('abort', leave);
        resolve(sequence);
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.push(take);
    });
  }
}
