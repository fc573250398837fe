import type { Dispatcher } from 'undici';
import { cacheMarkIn } from './cache-marks.ts';
import type { CallLimits, ChatEvent, ChatRequest, ChatUpstream } from './chat.ts';
import { secretsOf } from './clean-words.ts';
import { dialectFor, type OpenAiDialect } from './dialect.ts';
import { createDispatcher, requestHeaders } from './dispatcher.ts';
import { createOpenAiAnswer } from './openai-answer.ts';
import { openAiBody } from './openai-request.ts';
import { startPatience } from './patience.ts';
import { postAccepted } from './post.ts';
import { readAnswer } from './read-answer.ts';

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
  const { name, baseUrl, apiKey, dispatcher = createDispatcher(), dialect = dialectFor(baseUrl) } = options;
  const url = `${baseUrl.replace(/\/+$/, '')}/chat/completions`;
  const endpoint = { url, headers: requestHeaders(apiKey), dispatcher, secrets: secretsOf(url, apiKey) };

  async function* complete(request: ChatRequest, limits: CallLimits): AsyncGenerator<ChatEvent, void> {
    const body = openAiBody(request, dialect);
    const patience = startPatience(limits);
    try {
      const answer = createOpenAiAnswer(cacheMarkIn([request.messages, request.options]));
      yield* readAnswer(await postAccepted(endpoint, body, patience), answer, patience);
    } finally {
      patience.end();
    }
  }

  return { name, complete };
}
