import { setImmediate } from 'node:timers/promises';
import { BatchCosts } from './batch-costs.ts';
import { throwIfCancelled } from './cancellation.ts';
import { EngineFailure } from './engine.ts';

/** How soon a request should get its turn. */
export interface Urgency {
  readonly arrivedAtMs: number;
  /** A later turn of a run that has begun; somebody has waited for its first turns already. */
  readonly inProgress: boolean;
}

/** `edit` moves or erases what is in the cache, `prefill` reads prompt, `decode` writes one token. */
export type WorkKind = 'edit' | 'prefill' | 'decode';

export interface Work<Result> {
  readonly kind: WorkKind;
  /** Number of the sequence. */
  readonly lane: number;
  /** Of prompt, for `prefill`; at most a chunk. */
  readonly tokens: number;
  readonly urgency: Urgency;
  readonly signal: AbortSignal;
  run(): Promise<Result>;
}

interface Pending {
  readonly work: Omit<Work<unknown>, 'run'>;
  start(): Promise<void>;
}

/** A turn in progress overtakes new runs that came less than this before it; older ones it does not, so none starves. */
const headStartMs = 5_000;

/** The earlier, the sooner: the order of a line in which nobody waits for ever. */
export const rankOf = ({ arrivedAtMs, inProgress }: Urgency): number => arrivedAtMs - (inProgress ? headStartMs : 0);

/** Prompts of at most this share of a chunk are read together; longer ones gain nothing by waiting for each other. */
const shortPrompt = 1 / 8;

/**
 * Lock-step rounds, the only order in which the native code is used: in a round everybody who writes gets one token, in
 * one batch where that is sooner, and then prompts get one chunk. So a batch is always full (the library's own dispatcher
 * never fills one), and whoever writes waits for at most one chunk of somebody else's prompt. Writers and prompts are
 * separate batches because a batch of unequal pieces costs more than its parts.
 */
export class Rounds {
  readonly #chunkTokens: number;
  readonly #costs: Pick<BatchCosts, 'goOneByOne' | 'measure'>;
  #pending: Pending[] = [];
  #isTurning = false;
  #startedAtMs: number | undefined;

  constructor(chunkTokens: number, costs: Pick<BatchCosts, 'goOneByOne' | 'measure'> = new BatchCosts()) {
    this.#chunkTokens = chunkTokens;
    this.#costs = costs;
  }

  take<Result>(work: Work<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      const start = async () => {
        try {
          throwIfCancelled(work.signal);
          resolve(await work.run());
        } catch (error) {
          reject(asFailure(error));
        }
      };
      this.#pending.push({ work, start });
      if (!this.#isTurning) void this.#turn();
    });
  }

  /** How long the native code has been in the present batch: the only sign of a hung device. */
  decodingForMs(): number {
    return this.#startedAtMs === undefined ? 0 : performance.now() - this.#startedAtMs;
  }

  async #turn(): Promise<void> {
    this.#isTurning = true;
    while (this.#pending.length > 0) {
      // Whoever got a result has asked for its next turn by then, and cancellations have been heard.
      await setImmediate();
      // One by one: an erasure beside a copy of the same sequence would spoil the copy.
      for (const edit of this.#takeAll('edit')) await this.#run([edit]);
      await this.#write(this.#takeAll('decode'));
      await this.#run(this.#takeChunk());
    }
    this.#isTurning = false;
  }

  async #write(writers: readonly Pending[]): Promise<void> {
    if (writers.length === 0) return;
    const batches = this.#costs.goOneByOne(writers.length) ? writers.map((writer) => [writer]) : [writers];
    for (const batch of batches) await this.#costs.measure(batch.length, () => this.#run(batch));
  }

  async #run(batch: readonly Pending[]): Promise<void> {
    if (batch.length === 0) return;
    this.#startedAtMs = performance.now();
    // llama.cpp cuts a batch wherever the numbers of its sequences do not ascend.
    const ascending = batch.toSorted((one, other) => one.work.lane - other.work.lane);
    await Promise.all(ascending.map(({ start }) => start()));
    this.#startedAtMs = undefined;
  }

  #takeAll(kind: WorkKind): Pending[] {
    const taken = this.#pending.filter(({ work }) => work.kind === kind);
    this.#pending = this.#pending.filter(({ work }) => work.kind !== kind);
    return taken;
  }

  /** The most urgent piece of prompt, and with a short one the short ones that come next, up to a chunk. */
  #takeChunk(): Pending[] {
    const prompts = this.#pending
      .filter(({ work }) => work.kind === 'prefill')
      .sort((one, other) => rankOf(one.work.urgency) - rankOf(other.work.urgency));
    const isShort = ({ work }: Pending) => work.tokens <= this.#chunkTokens * shortPrompt;
    const taken: Pending[] = [];
    let tokens = 0;
    for (const prompt of prompts) {
      tokens += prompt.work.tokens;
      const canJoin = taken.every(isShort) && isShort(prompt) && tokens <= this.#chunkTokens;
      if (taken.length > 0 && !canJoin) break;
      taken.push(prompt);
    }
    this.#pending = this.#pending.filter((entry) => !taken.includes(entry));
    return taken;
  }
}

const asFailure = (error: unknown): unknown =>
  error instanceof EngineFailure || (error instanceof Error && error.name === 'AbortError')
    ? error
    : new EngineFailure('crashed', 'llama.cpp failed to decode', error);
