import type { Token } from 'node-llama-cpp';
import { cancellation, throwIfCancelled } from './cancellation.ts';
import { EngineFailure } from './engine.ts';
import { rankOf, type Urgency } from './rounds.ts';
import type { Sequence } from './sequence.ts';
import type { Snapshots } from './snapshots.ts';
import { keepForLater, warmStart } from './warm-start.ts';

/** A sequence of one's own until it is released. */
export interface Lease {
  readonly sequence: Sequence;
  /** Fires when the request is cancelled, and when the engine closes. */
  readonly signal: AbortSignal;
  release(): void;
}

/** What a request says of itself before it gets a sequence. */
export interface Applicant {
  readonly prompt: readonly Token[];
  /** Of a private run, whose traces nobody else gets to use. */
  readonly owner: string | undefined;
  readonly inProgress: boolean;
  readonly deadlineMs: number | undefined;
  readonly signal: AbortSignal;
}

interface Waiting {
  readonly urgency: Urgency;
  take(sequence: Sequence): void;
}

/** Fewer tokens are no loss. */
const conversationTokens = 64;

/** Hands each request a sequence; those who find none free wait in line, and the line has an end. */
export class SequencePool {
  readonly #sequences: readonly Sequence[];
  readonly #snapshots: Snapshots;
  readonly #free: Sequence[];
  readonly #waiting: Waiting[] = [];
  readonly #longestLine: number;
  /** Of every request, waiting or at work: how to end it, and its end. */
  readonly #open = new Map<AbortController, Promise<void>>();
  #closed: EngineFailure | undefined;

  constructor(sequences: readonly Sequence[], snapshots: Snapshots, longestLine: number) {
    this.#sequences = sequences;
    this.#snapshots = snapshots;
    this.#free = [...sequences];
    this.#longestLine = longestLine;
  }

  /** For work that needs no sequence but the model behind them. */
  throwIfClosed(): void {
    if (this.#closed) throw this.#closed;
  }

  async acquire({ prompt, owner, inProgress, deadlineMs, signal: requestSignal }: Applicant): Promise<Lease> {
    this.throwIfClosed();
    throwIfCancelled(requestSignal);
    const { signal, finish } = this.#register(requestSignal, deadlineMs);
    const urgency = { arrivedAtMs: performance.now(), inProgress };
    let taken: Sequence | undefined;
    const release = () => {
      if (taken) this.#giveBack(taken);
      finish();
    };
    try {
      taken = this.#takeBest(prompt, owner) ?? (await this.#waitInLine(urgency, signal));
      await keepForLater(taken, { prompt, owner }, this.#snapshots);
      taken.assignTo(owner, urgency);
      await warmStart(taken, prompt, { sequences: this.#sequences, snapshots: this.#snapshots }, signal);
      return { sequence: taken, signal, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Resolves when all requests that have come so far have ended, those in line too. */
  async drained(): Promise<void> {
    await Promise.all(this.#open.values());
  }

  /** Ends all requests and waits for them: native memory that goes under a running generator ends the process. */
  async close(): Promise<void> {
    this.#closed = new EngineFailure('unavailable', 'the engine is closed');
    for (const controller of this.#open.keys()) controller.abort(this.#closed);
    await Promise.all(this.#open.values());
    this.#snapshots.close();
  }

  /** A controller a request: `AbortSignal.any` with a signal of our own would keep every request in memory. */
  #register(requestSignal: AbortSignal, deadlineMs: number | undefined): { signal: AbortSignal; finish(): void } {
    const controller = new AbortController();
    const cancel = () => controller.abort();
    const expire = () => controller.abort(new EngineFailure('busy', 'the deadline of the request has passed'));
    const deadline = deadlineMs === undefined ? undefined : setTimeout(expire, deadlineMs);
    requestSignal.addEventListener('abort', cancel, { once: true });
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#open.set(controller, ended);
    const finish = () => {
      clearTimeout(deadline);
      requestSignal.removeEventListener('abort', cancel);
      this.#open.delete(controller);
      end();
    };
    return { signal: controller.signal, finish };
  }

  /**
   * The free sequence that holds most of the prompt; of equals the one that has been free for longest. Where that would
   * end another conversation, one with nothing to lose: what is common is copied.
   */
  #takeBest(prompt: readonly Token[], owner: string | undefined): Sequence | undefined {
    const rated = this.#free.map((sequence) => ({ sequence, kept: sequence.cachedPrefix(prompt, owner) }));
    const [first, ...others] = rated;
    if (first === undefined) return undefined;
    const best = others.reduce((chosen, candidate) => (candidate.kept > chosen.kept ? candidate : chosen), first);
    const isSpare = ({ sequence, kept }: typeof best) => sequence.heldTokens - kept < conversationTokens;
    const copied = best.sequence.sharedPrefix(prompt) === best.kept && this.#snapshots.hasRoomFor(best.kept);
    const { sequence } = isSpare(best) || !copied ? best : (rated.find(isSpare) ?? best);
    this.#free.splice(this.#free.indexOf(sequence), 1);
    return sequence;
  }

  #giveBack(sequence: Sequence): void {
    sequence.release();
    const [next] = this.#waiting.toSorted((one, other) => rankOf(one.urgency) - rankOf(other.urgency));
    if (next === undefined) this.#free.push(sequence);
    else next.take(sequence);
  }

  #waitInLine(urgency: Urgency, signal: AbortSignal): Promise<Sequence> {
    if (this.#waiting.length >= this.#longestLine) {
      throw new EngineFailure('busy', `${this.#longestLine} requests are waiting for this model already`);
    }
    return new Promise((resolve, reject) => {
      const leaveLine = () => {
        signal.removeEventListener('abort', giveUp);
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      };
      const giveUp = () => {
        leaveLine();
        reject(cancellation(signal));
      };
      const take = (sequence: Sequence) => {
        leaveLine();
        resolve(sequence);
      };
      const waiting = { urgency, take };
      signal.addEventListener('abort', giveUp, { once: true });
      this.#waiting.push(waiting);
    });
  }
}
