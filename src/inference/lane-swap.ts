import type { Adapter } from './engine.ts';
import type { Lanes } from './lanes.ts';

/**
 * The lanes that new requests get, and how those of another adapter take their place: whoever has begun on the old ones
 * ends there, and their memory is freed when the last one has. There are never more than two.
 */
export class LaneSwap {
  readonly #open: (adapter: Adapter | undefined) => Promise<Lanes>;
  #present: Lanes;
  #retiring: Lanes | undefined;
  #retirement: Promise<void> = Promise.resolve();
  #swapping: Promise<unknown> = Promise.resolve();

  constructor(first: Lanes, open: (adapter: Adapter | undefined) => Promise<Lanes>) {
    this.#present = first;
    this.#open = open;
  }

  get present(): Lanes {
    return this.#present;
  }

  /** Resolves when new requests get the other adapter; rejects, and all stays as it is, when it cannot be used. */
  swap(adapter: Adapter | undefined): Promise<void> {
    const swapped = this.#swapping.then(() => this.#swap(adapter));
    this.#swapping = swapped.catch(() => undefined);
    return swapped;
  }

  async #swap(adapter: Adapter | undefined): Promise<void> {
    await this.#retirement;
    this.#present.pool.throwIfClosed();
    const next = await this.#open(adapter);
    try {
      this.#present.pool.throwIfClosed();
    } catch (closed) {
      await next.close();
      throw closed;
    }
    this.#retiring = this.#present;
    this.#present = next;
    this.#retirement = this.#retire(this.#retiring);
  }

  async #retire(lanes: Lanes): Promise<void> {
    await lanes.pool.drained();
    await lanes.close();
    this.#retiring = undefined;
  }

  /** How long the longest of the present decodes has taken so far. */
  decodingForMs(): number {
    return Math.max(this.#present.rounds.decodingForMs(), this.#retiring?.rounds.decodingForMs() ?? 0);
  }

  async close(): Promise<void> {
    await Promise.all([this.#present.pool.close(), this.#retiring?.pool.close()]);
    await this.#swapping;
    await this.#retirement;
    await this.#present.close();
  }
}
