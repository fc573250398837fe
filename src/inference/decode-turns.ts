import { throwIfCancelled } from './cancellation.ts';
import { EngineFailure } from './engine.ts';

/**
 * One decode at a time, first come, first served: every sequence gets one token or one chunk of prompt, then the next
 * one has its turn. A scheduler that batches sequences can take this place; nobody else knows the order of decodes.
 */
export class DecodeTurns {
  #last: Promise<unknown> = Promise.resolve();
  #startedAtMs: number | undefined;

  take<Result>(signal: AbortSignal, decode: () => Promise<Result>): Promise<Result> {
    const turn = this.#last.then(async () => {
      throwIfCancelled(signal);
      this.#startedAtMs = performance.now();
      try {
        return await decode();
      } catch (error) {
        throw error instanceof EngineFailure
          ? error
          : new EngineFailure('crashed', 'llama.cpp failed to decode', error);
      } finally {
        this.#startedAtMs = undefined;
      }
    });
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  /** How long the native code has been in the present decode: the only sign of a hung device. */
  decodingForMs(): number {
    return this.#startedAtMs === undefined ? 0 : performance.now() - this.#startedAtMs;
  }
}
