import type { FastifyReply } from 'fastify';
import { OrchestraError } from '../errors.ts';

/** One request at work: the signal that stops it, and who may stop it. */
export interface Ticket {
  readonly signal: AbortSignal;
  stop(reason: OrchestraError): void;
  /** Why it was stopped, where the client is still there to be told. */
  stoppedBy(): OrchestraError | undefined;
  clientLeft(): boolean;
  close(): void;
}

/** Every request at work, so that clients that leave, owners that cancel and a shutdown can stop it. */
export class InFlight {
  readonly #mostRuns: number;
  readonly #open = new Map<string, { readonly keyName: string; readonly stop: (reason: OrchestraError) => void }>();
  #runs = 0;

  constructor(mostRuns: number) {
    this.#mostRuns = mostRuns;
  }

  /** @throws OrchestraError rate_limited when too many runs are at work. */
  openRun(id: string, keyName: string, reply: FastifyReply): Ticket {
    if (this.#runs >= this.#mostRuns) {
      throw new OrchestraError('rate_limited', 'Too many requests are at work.', { retryAfterMs: 1000 });
    }
    this.#runs += 1;
    return this.#ticket(id, keyName, reply, () => {
      this.#runs -= 1;
    });
  }

  openRelay(id: string, keyName: string, reply: FastifyReply): Ticket {
    return this.#ticket(id, keyName, reply, () => {});
  }

  /** False when the key has no such request at work. */
  cancel(id: string, keyName: string): boolean {
    const entry = this.#open.get(id);
    if (!entry || entry.keyName !== keyName) return false;
    entry.stop(new OrchestraError('cancelled', 'The request was cancelled.'));
    return true;
  }

  stopAll(reason: OrchestraError): void {
    for (const { stop } of this.#open.values()) stop(reason);
  }

  #ticket(id: string, keyName: string, reply: FastifyReply, onClose: () => void): Ticket {
    const controller = new AbortController();
    let left = false;
    const leave = () => {
      if (reply.raw.writableFinished) return;
      left = true;
      controller.abort();
    };
    // Gone already, while the body was read: there will be no second `close`.
    if (reply.raw.destroyed) leave();
    else reply.raw.once('close', leave);
    const stop = (reason: OrchestraError) => controller.abort(reason);
    this.#open.set(id, { keyName, stop });
    const { signal } = controller;
    return {
      signal,
      stop,
      stoppedBy: () => (signal.reason instanceof OrchestraError ? signal.reason : undefined),
      clientLeft: () => left,
      close: () => {
        reply.raw.off('close', leave);
        this.#open.delete(id);
        onClose();
      },
    };
  }
}
