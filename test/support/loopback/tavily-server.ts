import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Listener, listenOnLoopback, type ReceivedRequest, sendJson } from './listener.ts';

export interface WireSearchResult {
  readonly title: string;
  readonly url: string;
  readonly content: string;
  readonly score?: number;
}

export type TavilyReply =
  | {
      readonly kind: 'results';
      readonly results: readonly WireSearchResult[];
      readonly delayMs?: number;
      /** `null`: no usage although it was asked for. Left out: 2 for an advanced search, else 1. */
      readonly credits?: number | null;
    }
  | {
      readonly kind: 'error';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly message?: string;
    }
  /** Accepts the request and never answers. */
  | { readonly kind: 'silence' }
  /** Sends these bytes with status 200 and a JSON content type; then the end, or a destroyed socket. */
  | { readonly kind: 'raw'; readonly body: string; readonly destroy?: boolean };

export type TavilyScript = (request: ReceivedRequest) => TavilyReply | Promise<TavilyReply>;

export interface TavilyServer extends Omit<Listener, 'origin'> {
  /** Base URL without a path; searches go to `/search`. */
  readonly url: string;
  readonly billed: { readonly credits: number };
}

const findsOnePage: TavilyScript = ({ body }) => ({
  kind: 'results',
  results: [
    { title: 'Loopback', url: 'https://example.org/loopback', content: `About ${String(body['query'])}.`, score: 0.9 },
  ],
});

/** A server on 127.0.0.1 that speaks Tavily's `POST /search` and does what `script` says, request by request. */
export async function startTavilyServer(script: TavilyScript = findsOnePage): Promise<TavilyServer> {
  const billed = { credits: 0 };
  const { origin, ...listener } = await listenOnLoopback(async (request, response) => {
    if (request.method !== 'POST' || request.path !== '/search') {
      return sendJson(response, 404, { detail: { error: 'Not found.' } });
    }
    const reply = await script(request);
    if (reply.kind === 'results') billed.credits += creditsOf(reply.credits, request) ?? 0;
    await send(reply, request, response);
  });
  return { ...listener, url: origin, billed };
}

async function send(reply: TavilyReply, request: ReceivedRequest, response: ServerResponse): Promise<void> {
  if (reply.kind === 'silence') return;
  if (reply.kind === 'error') {
    return sendJson(response, reply.status, { detail: { error: reply.message ?? 'Refused.' } }, reply.headers);
  }
  if (reply.kind === 'raw') {
    response.writeHead(200, { 'content-type': 'application/json', 'transfer-encoding': 'chunked' });
    response.write(reply.body, () => (reply.destroy ? request.cut() : response.end()));
    return;
  }
  await sleep(reply.delayMs ?? 0);
  const credits = request.body['include_usage'] === true ? creditsOf(reply.credits, request) : undefined;
  sendJson(response, 200, {
    query: request.body['query'],
    answer: null,
    images: [],
    results: reply.results,
    response_time: 0.01,
    request_id: `loopback-${request.attempt}`,
    ...(credits === undefined ? {} : { usage: { credits } }),
  });
}

function creditsOf(credits: number | null | undefined, request: ReceivedRequest): number | undefined {
  if (credits === null) return undefined;
  return credits ?? (request.body['search_depth'] === 'advanced' ? 2 : 1);
}
