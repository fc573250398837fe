import type { Dispatcher } from 'undici';
import type { CallLimits, ChatEvent, ChatRequest, ChatUpstream } from './chat.ts';
import { secretsOf } from './clean-words.ts';
import { createDispatcher, requestHeaders } from './dispatcher.ts';
import { startPatience } from './patience.ts';
import { postAccepted } from './post.ts';
import { readAnswer } from './read-answer.ts';
import { createResponsesAnswer } from './responses-answer.ts';
import { responsesBody } from './responses-request.ts';

export interface ResponsesUpstreamOptions {
  /** What the configuration calls it; never its host. */
  readonly name: string;
  /** Ends in `/v1` as a rule. */
  readonly baseUrl: string;
  /** Empty for servers that want none. */
  readonly apiKey: string;
  /** Left out: a pool of its own. */
  readonly dispatcher?: Dispatcher;
}

/** A chat model behind OpenAI's Responses API. One attempt a call: retrying is `withRetries`' business. */
export function createResponsesUpstream(options: ResponsesUpstreamOptions): ChatUpstream {
  const { name, baseUrl, apiKey, dispatcher = createDispatcher() } = options;
  const url = `${baseUrl.replace(/\/+$/, '')}/responses`;
  const endpoint = { url, headers: requestHeaders(apiKey), dispatcher, secrets: secretsOf(url, apiKey) };

  async function* complete(request: ChatRequest, limits: CallLimits): AsyncGenerator<ChatEvent, void> {
    const body = responsesBody(request);
    const patience = startPatience(limits);
    try {
      yield* readAnswer(await postAccepted(endpoint, body, patience), createResponsesAnswer(), patience);
    } finally {
      patience.end();
    }
  }

  return { name, complete };
}
