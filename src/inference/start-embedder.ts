import { fileURLToPath } from 'node:url';
import { keepHead } from '../contract/code-points.ts';
import { cancellation, throwIfCancelled } from './cancellation.ts';
import {
  type Embedded,
  type Embedder,
  type EmbedRequest,
  mostCodePointsPerToken,
  type Ranker,
  type TextUse,
} from './embedder.ts';
import { EngineFailure, type EngineOptions } from './engine.ts';
import { type HostSession, type HostSettings, hostSettings, openSession } from './host-session.ts';
import type { FromHost, RequestBody } from './protocol.ts';

export interface EmbedderOptions {
  readonly modelPath: string;
  readonly threads: number;
  /** The longest text that is read whole; not more than the model was trained on. */
  readonly mostTokens: number;
  /** What stood before such texts in training, to the letter; nothing by default. */
  readonly instructions?: Readonly<Partial<Record<TextUse, string>>>;
}

type Reply = Extract<FromHost, { readonly id: number }>;
type Ask = (body: RequestBody, signal: AbortSignal) => Promise<Reply>;

interface Waiting {
  resolve(reply: Reply): void;
  reject(error: Error): void;
}

/** A host that died is not started again for so long: whoever asks meanwhile does without. */
const restartDelayMs = 5_000;

/** Loads an embedding GGUF in a process of its own, which is started again on demand after it died. */
export async function startEmbedder(
  options: EmbedderOptions,
  settings: HostSettings = embedHostSettings(),
): Promise<Embedder & Ranker> {
  const { mostTokens } = options;
  const host = createHost(options, settings);
  const { weightsHash } = await host.open();
  const work = workOf(host.ask, options);
  try {
    const dimensions = await dimensionsOf(work.embed);
    return { info: { dimensions, mostTokens, weightsHash }, ...work, close: host.close };
  } catch (error) {
    // Nobody else could: the caller gets no embedder.
    await host.close();
    throw error;
  }
}

function workOf(
  ask: Ask,
  { mostTokens, instructions = {} }: EmbedderOptions,
): Pick<Embedder & Ranker, 'embed' | 'rank'> {
  const instructed = (use: TextUse, text: string): string => (instructions[use] ?? '') + text;
  return {
    /** A frame a text: together they could be too large for one. */
    async embed({ texts, use, longTexts, signal }: EmbedRequest): Promise<Embedded> {
      const vectors: Float32Array[] = [];
      let tokens = 0;
      let cutTexts = 0;
      for (const text of texts) {
        const whole = use === undefined ? text : instructed(use, text);
        const head = keepHead(whole, mostTokens * mostCodePointsPerToken + 1);
        const reply = await ask({ type: 'embed', text: head, refuseLong: longTexts === 'refuse' }, signal);
        if (reply.type !== 'embedded') throw unexpected(reply);
        vectors.push(toVector(reply.vector));
        tokens += reply.tokens;
        if (reply.isCut) cutTexts += 1;
      }
      return { vectors, tokens, cutTexts };
    },
    async rank(query, texts, signal) {
      const documents = texts.map((text) => instructed('document', text));
      const reply = await ask({ type: 'rank', query: instructed('query', query), texts: documents }, signal);
      if (reply.type !== 'ranked') throw unexpected(reply);
      return reply.scores;
    },
  };
}

function createHost({ modelPath, threads, mostTokens }: EmbedderOptions, settings: HostSettings) {
  const options: EngineOptions = {
    modelPath,
    threads,
    device: 'cpu',
    contextTokens: mostTokens,
    sequences: 1,
    prefillChunkTokens: mostTokens,
  };
  const waiting = new Map<number, Waiting>();
  let diedAtMs = Number.NEGATIVE_INFINITY;
  let session: Promise<HostSession> | undefined;
  let closed = false;
  let lastId = 0;

  function open(): Promise<HostSession> {
    if (closed) return Promise.reject(new EngineFailure('unavailable', 'the embedder is closed'));
    if (session === undefined && performance.now() - diedAtMs < restartDelayMs) {
      return Promise.reject(new EngineFailure('unavailable', 'the embedding host died a moment ago'));
    }
    session ??= openSession(options, settings, { message, exit: ({ how }) => lose(`it is gone: ${how}`) });
    session.catch(() => lose('it did not start'));
    return session;
  }

  function lose(reason: string): void {
    session = undefined;
    diedAtMs = performance.now();
    const failure = new EngineFailure('crashed', `the embedding host cannot answer: ${reason}`);
    for (const { reject } of waiting.values()) reject(failure);
  }

  function message(reply: FromHost): void {
    if (!('id' in reply)) return;
    if (reply.type === 'failed') waiting.get(reply.id)?.reject(failureOf(reply));
    else waiting.get(reply.id)?.resolve(reply);
  }

  async function ask(body: RequestBody, signal: AbortSignal): Promise<Reply> {
    const host = await open();
    throwIfCancelled(signal);
    const id = ++lastId;
    let abort = () => {};
    try {
      return await new Promise((resolve, reject) => {
        waiting.set(id, { resolve, reject });
        abort = () => {
          host.send({ type: 'cancel', id });
          reject(cancellation(signal));
        };
        signal.addEventListener('abort', abort, { once: true });
        host.send({ ...body, id });
      });
    } finally {
      waiting.delete(id);
      signal.removeEventListener('abort', abort);
    }
  }

  async function close(): Promise<void> {
    closed = true;
    await session?.then((host) => host.kill('the embedder was closed')).catch(() => undefined);
  }

  return { open: () => open().then(({ info }) => info), ask, close };
}

/** A reranker has no vectors. */
async function dimensionsOf(embed: Embedder['embed']): Promise<number> {
  try {
    const { vectors } = await embed({ texts: [''], longTexts: 'cut', signal: new AbortController().signal });
    return vectors[0]?.length ?? 0;
  } catch (error) {
    if (error instanceof EngineFailure && error.kind === 'invalid') return 0;
    throw error;
  }
}

/** Like a generating host's, with another program. */
export function embedHostSettings(): HostSettings {
  const { arguments: hostArguments, ...settings } = hostSettings();
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const program = fileURLToPath(new URL(`./embed-host.${extension}`, import.meta.url));
  return { ...settings, arguments: [...hostArguments.slice(0, -1), program] };
}

function toVector(base64: string): Float32Array {
  const bytes = Buffer.from(base64, 'base64');
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}

function failureOf({ failure }: Extract<Reply, { readonly type: 'failed' }>): Error {
  const { kind, message } = failure;
  return kind === 'cancelled' ? new DOMException(message, 'AbortError') : new EngineFailure(kind, message);
}

const unexpected = (reply: Reply): EngineFailure =>
  new EngineFailure('crashed', `the embedding host answered with ${reply.type}, which was not asked for`);
