import { type ChatMessage, textOf } from '../contract/chat.ts';
import { cancellation } from './cancellation.ts';
import {
  type Adapter,
  EngineFailure,
  type EngineInfo,
  type EngineOptions,
  type GenerateEvent,
  type GenerateRequest,
  type InferenceEngine,
  type JudgeRequest,
  type JudgeResult,
  type ScoreRequest,
  type ScoreResult,
} from './engine.ts';
import type { HostEnd } from './host-process.ts';
import { type HostSession, type HostSettings, openSession } from './host-session.ts';
import type { FromHost, RequestBody, WireFailure } from './protocol.ts';
import { checkAdapter, checkGenerateRequest, checkJudgeRequest, checkScoreRequest } from './validate.ts';

type Reply = Extract<FromHost, { readonly id: number }>;

/** Who waits for the replies of one request. */
interface Listener {
  reply(reply: Reply): void;
  fail(error: Error): void;
}

/** The engine as the gateway sees it: a host process that may die at any time and comes back by itself. */
export class EngineClient implements InferenceEngine {
  /** As they would be asked for now: a host that comes back gets the adapter of the last swap. */
  #options: EngineOptions;
  readonly #settings: HostSettings;
  readonly #open = new Map<number, Listener>();
  #info: EngineInfo | undefined;
  #session: HostSession | undefined;
  #opening: Promise<void> | undefined;
  #openedAtMs = 0;
  #restartsInARow = 0;
  #restart: NodeJS.Timeout | undefined;
  #lastId = 0;
  /** Why there is no session now. */
  #absence = new EngineFailure('unavailable', 'the inference host has not been started');
  #closing: Promise<void> | undefined;
  #sessionGone: Promise<void> | undefined;

  constructor(options: EngineOptions, settings: HostSettings) {
    this.#options = options;
    this.#settings = settings;
  }

  /** Resolves when the model is loaded. A first start that fails is not tried again: the operator has to act. */
  async start(): Promise<void> {
    this.#opening = this.#openSession();
    await this.#opening;
  }

  get info(): EngineInfo {
    if (this.#info === undefined) throw this.#absence;
    return this.#info;
  }

  async score({ signal, ...request }: ScoreRequest): Promise<ScoreResult> {
    // Here and not only in the host: JSON turns NaN into null.
    checkScoreRequest(request);
    const reply = await this.#ask({ type: 'score', request }, signal);
    if (reply.type !== 'scored') throw unexpected(reply);
    return reply.result;
  }

  async judge({ signal, ...request }: JudgeRequest): Promise<JudgeResult> {
    checkJudgeRequest(request);
    const reply = await this.#ask({ type: 'judge', request }, signal);
    if (reply.type !== 'judged') throw unexpected(reply);
    return reply.result;
  }

  async *generate({ signal, messages, ...others }: GenerateRequest): AsyncGenerator<GenerateEvent> {
    const request = { ...others, messages: messages.map(textOnly) };
    checkGenerateRequest(request);
    let cancel = () => {};
    yield* new ReadableStream<GenerateEvent>({
      start: (controller) => {
        cancel = this.#send({ type: 'generate', request }, signal, {
          fail: (error) => controller.error(error),
          reply: (reply) => {
            if (reply.type !== 'generated') return controller.error(unexpected(reply));
            controller.enqueue(reply.event);
            if (isLast(reply)) controller.close();
          },
        });
      },
      cancel: () => cancel(),
    });
  }

  async countTokens(text: string): Promise<number> {
    const reply = await this.#ask({ type: 'count', text }, new AbortController().signal);
    if (reply.type !== 'counted') throw unexpected(reply);
    return reply.tokens;
  }

  async useAdapter(adapter: Adapter | undefined): Promise<EngineInfo> {
    checkAdapter(adapter);
    const reply = await this.#ask({ type: 'adapt', adapter }, new AbortController().signal);
    if (reply.type !== 'adapted') throw unexpected(reply);
    this.#options = { ...this.#options, adapter };
    this.#info = reply.info;
    return reply.info;
  }

  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  async #shutDown(): Promise<void> {
    clearTimeout(this.#restart);
    await this.#opening?.catch(() => undefined);
    this.#session?.kill('the engine was closed');
    await this.#sessionGone;
    this.#lose(closedFailure());
  }

  #ask(body: RequestBody, signal: AbortSignal): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#send(body, signal, { reply: resolve, fail: reject });
    });
  }

  /** Returns how to give the request up. */
  #send(body: RequestBody, signal: AbortSignal, listener: Listener): () => void {
    const session = this.#session;
    const id = ++this.#lastId;
    const finish = () => {
      this.#open.delete(id);
      signal.removeEventListener('abort', abort);
    };
    const giveUp = () => {
      if (!this.#open.has(id)) return;
      finish();
      session?.send({ type: 'cancel', id });
    };
    const abort = () => {
      giveUp();
      listener.fail(cancellation(signal));
    };
    const fail = (error: Error) => {
      finish();
      listener.fail(error);
    };
    if (signal.aborted || session === undefined) {
      listener.fail(signal.aborted ? cancellation(signal) : this.#absence);
      return giveUp;
    }
    this.#open.set(id, {
      fail,
      reply: (reply) => {
        if (reply.type === 'failed') return fail(failureOf(reply.failure));
        if (isLast(reply)) finish();
        listener.reply(reply);
      },
    });
    signal.addEventListener('abort', abort, { once: true });
    try {
      session.send({ ...body, id });
    } catch (error) {
      fail(new EngineFailure('context_full', 'the request is larger than any context', error));
    }
    return giveUp;
  }

  async #openSession(): Promise<void> {
    let markGone = () => {};
    const gone = new Promise<void>((resolve) => {
      markGone = resolve;
    });
    const session = await openSession(this.#options, this.#settings, {
      exit: (end) => {
        markGone();
        this.#onExit(end);
      },
      // Replies to requests that were given up find nobody, and need nobody.
      message: (message) => 'id' in message && this.#open.get(message.id)?.reply(message),
    });
    this.#sessionGone = gone;
    this.#session = session;
    this.#info = session.info;
    this.#openedAtMs = performance.now();
  }

  #onExit({ how, complaints }: HostEnd): void {
    if (this.#closing) {
      this.#lose(closedFailure());
      return;
    }
    const livedMs = performance.now() - this.#openedAtMs;
    if (livedMs > this.#settings.longestRestartMs) this.#restartsInARow = 0;
    this.#lose(new EngineFailure('crashed', `the inference host is being restarted: ${how}`, complaints));
    this.#restartLater();
  }

  #lose(reason: EngineFailure): void {
    this.#session = undefined;
    this.#absence = reason;
    for (const listener of [...this.#open.values()]) listener.fail(reason);
  }

  #restartLater(): void {
    const { firstRestartMs, longestRestartMs } = this.#settings;
    const delayMs = Math.min(firstRestartMs * 2 ** this.#restartsInARow++, longestRestartMs);
    this.#restart = setTimeout(() => {
      this.#opening = this.#openSession();
      this.#opening.catch((error: EngineFailure) => {
        this.#absence = error;
        if (!this.#closing) this.#restartLater();
      });
    }, delayMs);
  }
}

/** Images stay here: the host could only say that there are some. */
const textOnly = (message: ChatMessage): ChatMessage => {
  const { role, name, tool_calls, tool_call_id } = message;
  return { role, content: textOf(message), name, tool_calls, tool_call_id };
};

const isLast = (reply: Reply): boolean => reply.type !== 'generated' || reply.event.type === 'end';

const failureOf = ({ kind, message }: WireFailure): Error =>
  kind === 'cancelled' ? new DOMException(message, 'AbortError') : new EngineFailure(kind, message);

const unexpected = (reply: Reply): EngineFailure =>
  new EngineFailure('crashed', `the inference host answered with ${reply.type}, which was not asked for`);

const closedFailure = (): EngineFailure => new EngineFailure('unavailable', 'the engine is closed');
