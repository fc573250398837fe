import type { Dispatcher } from 'undici';
import { createAnthropicAnswer } from './anthropic-answer.ts';
import { anthropicBody, samplingFields } from './anthropic-request.ts';
import { cacheMarkIn } from './cache-marks.ts';
import type { CallLimits, ChatEvent, ChatRequest, ChatUpstream } from './chat.ts';
import { secretsOf } from './clean-words.ts';
import { createDispatcher, requestHeaders } from './dispatcher.ts';
import { failureOfStatus, readWireError } from './failure.ts';
import { type Patience, startPatience } from './patience.ts';
import { postJson, type Response, readRefusal } from './post.ts';
import { readAnswer } from './read-answer.ts';

export interface AnthropicUpstreamOptions {
  /** What the configuration calls it; never its host. */
  readonly name: string;
  /** `https://api.anthropic.com`; a path that ends in `/v1` is taken as well. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** Left out: a pool of its own. */
  readonly dispatcher?: Dispatcher;
}

/** The version whose fields and events the adapter knows; later ones refuse some of them. */
const apiVersion = '2023-06-01';

/** A chat model behind Anthropic's Messages API. One attempt a call: retrying is `withRetries`' business. */
export function createAnthropicUpstream(options: AnthropicUpstreamOptions): ChatUpstream {
  const { name, baseUrl, apiKey, dispatcher = createDispatcher() } = options;
  const url = `${baseUrl.replace(/\/+(v1\/*)?$/, '')}/v1/messages`;
  const headers = {
    ...requestHeaders(''),
    'anthropic-version': apiVersion,
    ...(apiKey ? { 'x-api-key': apiKey } : {}),
  };
  const endpoint = { url, headers, dispatcher, secrets: secretsOf(url, apiKey) };
  /** Models that said so. Their names come from the configuration, so there are few. */
  const withoutSampling = new Set<string>();

  async function send(request: ChatRequest, patience: Patience): Promise<Response> {
    const full = anthropicBody(request);
    const body = withoutSampling.has(request.model) ? plain(full) : full;
    const response = await postJson(endpoint, body, patience);
    if (response.ok) return response;
    const refusal = await readRefusal(response, patience);
    if (!refusesSampling(body, response.status, refusal)) {
      throw failureOfStatus(response.status, response.headers, refusal, Date.now(), endpoint.secrets);
    }
    withoutSampling.add(request.model);
    return send(request, patience);
  }

  async function* complete(request: ChatRequest, limits: CallLimits): AsyncGenerator<ChatEvent, void> {
    const patience = startPatience(limits);
    try {
      const answer = createAnthropicAnswer(cacheMarkIn([request.messages, request.options]), request.maxOutputTokens);
      yield* readAnswer(await send(request, patience), answer, patience);
    } finally {
      patience.end();
    }
  }

  return { name, cachesOnlyMarked: true, complete };
}

/** Newer models take no temperature at all; a hint that cannot be followed is no reason to give up the answer. */
function refusesSampling(body: object, status: number, refusal: unknown): boolean {
  const message = readWireError(refusal).message ?? '';
  return status === 400 && samplingFields.some((field) => field in body && new RegExp(`\\b${field}\\b`).test(message));
}

const plain = (body: object): object =>
  Object.fromEntries(Object.entries(body).filter(([key]) => !samplingFields.some((field) => field === key)));
