import type { ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';
import type { OrchestraError } from '../errors.ts';
import type { ServerTimings } from './parts.ts';
import { errorEnvelope } from './problem.ts';
import type { WireChunk, WireDelta, WireFinishReason, WireUsage } from './wire.ts';

/** What every chunk of one stream repeats. */
export interface StreamIdentity {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
}

/**
 * The only writer of event streams. It holds the rules of the wire: headers late enough for an early failure to have
 * its status, a comment in silence, one role chunk, one finish chunk, `[DONE]` once, and no faster than the client
 * reads. Every method resolves when the client took the bytes; once the client is gone they do nothing.
 */
export interface StreamWriter {
  /** True once the status is sent: a failure is an event from then on. */
  isOpen(): boolean;
  delta(delta: WireDelta): Promise<void>;
  /** A whole chunk without choices, for what is not part of the answer. */
  aside(extra: Readonly<Record<string, unknown>>): Promise<void>;
  finish(reason: WireFinishReason, extra: Readonly<Record<string, unknown>>): Promise<void>;
  usage(usage: WireUsage, extra: Readonly<Record<string, unknown>>): Promise<void>;
  /** Bytes of complete events that somebody else framed. */
  raw(events: Uint8Array | string): Promise<void>;
  fail(error: OrchestraError): Promise<void>;
  /** Says `[DONE]` and closes the response. */
  end(): Promise<void>;
  /** Stops the timers without a word. */
  abandon(): void;
}

/**
 * @param identity of our own chunks; undefined when chunks come framed from an upstream, which brings its own role.
 */
export function createStreamWriter(
  reply: FastifyReply,
  identity: StreamIdentity | undefined,
  timings: ServerTimings,
): StreamWriter {
  const { raw } = reply;
  let open = false;
  let roleSent = identity === undefined;
  const opener = setTimeout(() => {
    void begin();
    // Without a chunk of our own the headers would wait for the upstream's first.
    raw.flushHeaders();
  }, timings.openAfterMs);
  let keepAlive: NodeJS.Timeout | undefined;
  const breakSilence = (): void => {
    // A client that does not read is not waiting for a sign of life.
    if (raw.writableNeedDrain) keepAlive?.refresh();
    else void write(': keep-alive\n\n');
  };

  function openHeaders(): void {
    if (open || raw.destroyed) return;
    open = true;
    clearTimeout(opener);
    keepAlive = setTimeout(breakSilence, timings.keepAliveMs);
    reply.hijack();
    raw.writeHead(200, { ...plainHeaders(reply), ...streamHeaders });
  }
  function begin(): Promise<void> {
    openHeaders();
    if (roleSent || !identity) return Promise.resolve();
    roleSent = true;
    return write(frame(choiceChunk(identity, { role: 'assistant', content: '' }, null)));
  }
  function write(bytes: Uint8Array | string): Promise<void> {
    keepAlive?.refresh();
    if (raw.destroyed || raw.writableEnded || raw.write(bytes)) return Promise.resolve();
    return drained(raw, timings.unreadMs);
  }
  const chunk = (value: (identity: StreamIdentity) => WireChunk | object): Promise<void> => {
    void begin();
    return identity ? write(frame(value(identity))) : Promise.resolve();
  };
  const abandon = (): void => {
    clearTimeout(keepAlive);
    clearTimeout(opener);
  };
  const end = async (): Promise<void> => {
    openHeaders();
    abandon();
    if (!raw.destroyed) raw.end('data: [DONE]\n\n');
  };

  return {
    isOpen: () => open,
    delta: (delta) => chunk((self) => choiceChunk(self, delta, null)),
    aside: (extra) => chunk((self) => ({ ...envelope(self), choices: [], ...extra })),
    finish: (reason, extra) => chunk((self) => ({ ...choiceChunk(self, {}, reason), ...extra })),
    usage: (usage, extra) => chunk((self) => ({ ...envelope(self), choices: [], usage, ...extra })),
    raw: (events) => {
      openHeaders();
      return write(events);
    },
    fail: async (error) => {
      openHeaders();
      await write(frame(errorEnvelope(error)));
      await end();
    },
    end,
    abandon,
  };
}

const streamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  // `no-transform` keeps proxies from compressing, and so from buffering.
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
};

const envelope = ({ id, created, model, system_fingerprint }: StreamIdentity) => ({
  id,
  object: 'chat.completion.chunk' as const,
  created,
  model,
  system_fingerprint,
});

const choiceChunk = (
  identity: StreamIdentity,
  delta: WireDelta,
  finish_reason: WireFinishReason | null,
): WireChunk => ({ ...envelope(identity), choices: [{ index: 0, delta, logprobs: null, finish_reason }] });

/** One event. Readers that split lines by Unicode's rules would break at three characters that JSON leaves raw. */
export function frame(value: object): string {
  return `data: ${JSON.stringify(value).replace(/[\u0085\u2028\u2029]/g, escapeUnit)}\n\n`;
}

const escapeUnit = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;

function plainHeaders(reply: FastifyReply): Record<string, string> {
  const entries = Object.entries(reply.getHeaders()).filter(([name]) => name !== 'content-length');
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]));
}

/** A client that reads nothing for too long holds money and memory for nobody: its connection is cut. */
function drained(raw: ServerResponse, unreadMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => raw.destroy(), unreadMs);
    const done = () => {
      clearTimeout(timer);
      raw.off('drain', done);
      raw.off('close', done);
      resolve();
    };
    raw.once('drain', done);
    raw.once('close', done);
  });
}
