import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { OrchestraError } from '../errors.ts';
import { isPrivate } from '../preferences/privacy.ts';
import { invalidField } from './openrouter-provider.ts';
import { sendWhole, type WholeAnswer } from './whole-answer.ts';

/**
 * Does the work of a request once for each `Idempotency-Key` of a caller: who sends the request again while it is at
 * work, or soon after, gets the same answer and pays once. Streams and failures are not repeated, and answers of private
 * runs are not kept. Without the header, the work is just done.
 */
export type AnswerOnce = (
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<FastifyReply>,
) => Promise<FastifyReply>;

interface Outcome {
  readonly whole: WholeAnswer | undefined;
  readonly failure: unknown;
  readonly headers: Readonly<Record<string, string>>;
  /** Its client went away before it had an answer: whoever waits along has to do the work again. */
  readonly left: boolean;
}

interface Entry {
  /** Of the request, so that another one under the same key is noticed. */
  readonly fingerprint: string;
  readonly running?: Promise<Outcome>;
  readonly kept?: Outcome;
}

const keptMs = 600_000;
const mostKeysOfCaller = 1_000;
const mostCharactersOfCaller = 16 * 1024 * 1024;
const longestKey = 255;

export function createAnswerOnce(app: FastifyInstance, now: () => number): AnswerOnce {
  app.decorateReply('whole', undefined);
  /** One store a caller, so that nobody can push out another's answers. */
  const stores = new Map<string, LRUCache<string, Entry>>();
  const storeOf = (caller: string): LRUCache<string, Entry> => {
    const store = stores.get(caller) ?? newStore(now);
    stores.set(caller, store);
    return store;
  };
  return (request, reply, work) => {
    const key = keyOf(request);
    return key === undefined ? work() : answerOnce(storeOf(request.caller.name), key, request, reply, work);
  };
}

const newStore = (now: () => number) =>
  new LRUCache<string, Entry>({
    max: mostKeysOfCaller,
    maxSize: mostCharactersOfCaller,
    sizeCalculation: ({ fingerprint, kept }) => fingerprint.length + (kept?.whole?.body.length ?? 0),
    ttl: keptMs,
    ttlResolution: 0,
    perf: { now },
  });

function keyOf({ headers }: FastifyRequest): string | undefined {
  const key = headers['idempotency-key'];
  if (typeof key !== 'string' || key === '') return undefined;
  if (key.length > longestKey) throw invalidField('idempotency-key', `is longer than ${longestKey} characters`);
  return key;
}

async function answerOnce(
  entries: LRUCache<string, Entry>,
  key: string,
  request: FastifyRequest,
  reply: FastifyReply,
  work: () => Promise<FastifyReply>,
): Promise<FastifyReply> {
  const fingerprint = fingerprintOf(request);
  do {
    const earlier = await earlierOutcome(entries, key, fingerprint, request);
    if (earlier) return repeat(reply, earlier);
    // Of several that waited along in vain, one begins, and the others wait for that one.
  } while (entries.get(key)?.running);
  const running = work().then(
    () => outcomeOf(reply, undefined),
    (thrown: unknown) => outcomeOf(reply, thrown),
  );
  entries.set(key, { fingerprint, running });
  const outcome = await running;
  const isKept = outcome.whole && !isPrivate(outcome.whole.privacy);
  entries.set(key, { fingerprint, ...(isKept ? { kept: outcome } : {}) });
  if (outcome.failure !== undefined) throw outcome.failure;
  return reply;
}

/** What the same request came to, now or before; undefined when it is to be done. */
async function earlierOutcome(
  entries: LRUCache<string, Entry>,
  key: string,
  fingerprint: string,
  { body }: FastifyRequest,
): Promise<Outcome | undefined> {
  for (;;) {
    const entry = entries.get(key);
    if (entry && entry.fingerprint !== fingerprint) throw conflict('was used for another request');
    if (!entry?.running) return entry?.kept;
    if (isStreamed(body)) throw conflict('belongs to a stream that is still running; streams are not repeated');
    const outcome = await entry.running;
    if (outcome.whole || (outcome.failure !== undefined && !outcome.left)) return outcome;
  }
}

/** All that decides what the answer is. */
function fingerprintOf({ url, headers, body }: FastifyRequest): string {
  const asked = [url, headers['x-orchestra-preferences'], headers['x-orchestra-strict'], body];
  return createHash('sha256').update(JSON.stringify(asked)).digest('hex');
}

const isStreamed = (body: unknown): boolean =>
  typeof body === 'object' && body !== null && 'stream' in body && body.stream === true;

const conflict = (what: string) =>
  new OrchestraError('conflict', `This Idempotency-Key ${what}. Send a new key.`, { param: 'idempotency-key' });

const repeatedHeaders = ['x-orchestra-run-id', 'x-orchestra-cost-usd', 'x-should-retry'];

function outcomeOf(reply: FastifyReply, failure: unknown): Outcome {
  const headers = repeatedHeaders.flatMap((name) => {
    const value = reply.getHeader(name);
    return value === undefined ? [] : [[name, String(value)]];
  });
  const { destroyed, writableFinished } = reply.raw;
  return { whole: reply.whole, failure, headers: Object.fromEntries(headers), left: destroyed && !writableFinished };
}

function repeat(reply: FastifyReply, { whole, failure, headers }: Outcome): FastifyReply {
  reply.headers(headers);
  if (!whole) throw failure;
  return sendWhole(reply, whole);
}
