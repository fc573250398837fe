import OpenAI, { APIError } from 'openai';
import { type Dispatcher, fetch as undiciFetch } from 'undici';
import { cacheMarkIn } from './cache-marks.ts';
import type { CallLimits, ChatEvent, ChatRequest, ChatUpstream } from './chat.ts';
import { dialectFor, type OpenAiDialect } from './dialect.ts';
import { createDispatcher, requestHeaders } from './dispatcher.ts';
import { failureOfStatus } from './failure.ts';
import { createOpenAiAnswer } from './openai-answer.ts';
import { openAiBody } from './openai-request.ts';
import { startPatience } from './patience.ts';
import { readAnswer } from './read-answer.ts';
import { wellFormedJson } from './well-formed.ts';

export interface OpenAiUpstreamOptions {
  /** What the configuration calls it; never its host. */
  readonly name: string;
  readonly baseUrl: string;
  /** Empty for servers that want none. */
  readonly apiKey: string;
  /** Left out: OpenAI's own for OpenAI's hosts, else the common one. */
  readonly dialect?: OpenAiDialect;
  /** Left out: a pool of its own. */
  readonly dispatcher?: Dispatcher;
}

/** A chat model behind any OpenAI-compatible server. One attempt a call: retrying is `withRetries`' business. */
export function createOpenAiUpstream(options: OpenAiUpstreamOptions): ChatUpstream {
  const client = createClient(options);
  const dialect = options.dialect ?? dialectFor(options.baseUrl);

  async function* complete(request: ChatRequest, limits: CallLimits): AsyncGenerator<ChatEvent, void> {
    const patience = startPatience(limits);
    try {
      const response = await patience.during(post(client, openAiBody(request, dialect), patience.signal));
      yield* readAnswer(response, createOpenAiAnswer(cacheMarkIn([request.messages, request.options])), patience);
    } finally {
      patience.end();
    }
  }

  return { name: options.name, complete };
}

function createClient({ baseUrl, apiKey, dispatcher = createDispatcher() }: OpenAiUpstreamOptions): OpenAI {
  const headers = requestHeaders(apiKey);
  const send = (url: string, { method, body, signal }: RequestInit) =>
    undiciFetch(url, {
      method: method ?? 'POST',
      headers,
      body: wellFormedJson(String(body)),
      signal: signal ?? null,
      dispatcher,
      // A redirect would carry the conversation to a host that nobody configured.
      redirect: 'manual',
    });
  return new OpenAI({
    baseURL: baseUrl,
    apiKey: 'sent by our own headers',
    // Said explicitly, because what is left out the library takes from the environment.
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    logLevel: 'off',
    maxRetries: 0,
    timeout: longestTimerMs,
    // undici's fetch and Node's are the same thing to call, but TypeScript knows them as two.
    fetch: send as unknown as typeof fetch,
  });
}

/** Patience ends every call; the library's own clock must not be faster. */
const longestTimerMs = 2 ** 31 - 1;

async function post(client: OpenAI, body: object, signal: AbortSignal): Promise<Response> {
  try {
    return await client.post('/chat/completions', { body, signal, stream: true }).asResponse();
  } catch (thrown) {
    if (!(thrown instanceof APIError) || thrown.status === undefined) throw thrown;
    throw failureOfStatus(thrown.status, thrown.headers ?? new Headers(), thrown.error, Date.now());
  }
}
