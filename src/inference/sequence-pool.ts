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
  /** Of every request, waiting or at work: how to end it, and its end. */
  readonly #open = new Map<AbortController, Promise<void>>();
  #closed: EngineFailure | undefined;

  constructor(sequences: readonly Sequence[], longestLine: number) {
    this.#free = [...sequences];
    this.#longestLine = longestLine;
  }

  /** For work that needs no sequence but the model behind them. */
  throwIfClosed(): void {
    if (this.#closed) throw this.#closed;
  }

  /** @param owner of a private run, whose traces nobody else gets to use. */
  async acquire(tokens: readonly Token[], requestSignal: AbortSignal, owner?: string): Promise<Lease> {
    this.throwIfClosed();
    throwIfCancelled(requestSignal);
    const { signal, finish } = this.#register(requestSignal);
    try {
      const sequence = this.#takeBest(tokens, owner) ?? (await this.#waitInLine(signal));
      sequence.assignTo(owner);
      const release = () => {
        this.#giveBack(sequence);
        finish();
      };
      return { sequence, signal, release };
    } catch (error) {
      finish();
      throw error;
    }
  }

  /** Ends all requests and waits for them: native memory that goes under a running generator ends the process. */
  async close(): Promise<void> {
    this.#closed = new EngineFailure('unavailable', 'the engine is closed');
    for (const controller of this.#open.keys()) controller.abort(this.#closed);
    await Promise.all(this.#open.values());
  }

  /** A controller a request: `AbortSignal.any` with a signal of our own would keep every request in memory. */
  #register(requestSignal: AbortSignal): { signal: AbortSignal; finish(): void } {
    const controller = new AbortController();
    const cancel = () => controller.abort();
    requestSignal.addEventListener('abort', cancel, { once: true });
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#open.set(controller, ended);
    const finish = () => {
      requestSignal.removeEventListener('abort', cancel);
      this.#open.delete(controller);
      end();
    };
    return { signal: controller.signal, finish };
  }

  /** The free sequence that holds most of `tokens`; of equals the one that has been free for longest. */
  #takeBest(tokens: readonly Token[], owner: string | undefined): Sequence | undefined {
    const [first, ...others] = this.#free;
    if (first === undefined) return undefined;
    const best = others.reduce(
      (chosen, candidate) =>
        candidate.cachedPrefix(tokens, owner) > chosen.cachedPrefix(tokens, owner) ? candidate : chosen,
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
