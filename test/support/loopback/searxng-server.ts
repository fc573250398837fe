import type { ServerResponse } from 'node:http';
import { type Listener, listenOnLoopback, type ReceivedRequest, sendJson } from './listener.ts';
import type { WireSearchResult } from './tavily-server.ts';

export type SearxngReply =
  | {
      readonly kind: 'results';
      readonly results: readonly Partial<WireSearchResult>[];
      /** Name and reason of each engine that gave nothing. */
      readonly unresponsive?: readonly (readonly [string, string])[];
    }
  | { readonly kind: 'status'; readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  /** Accepts the request and never answers. */
  | { readonly kind: 'silence' }
  /** Sends these bytes with status 200 and a JSON content type; then the end, or a destroyed socket. */
  | { readonly kind: 'raw'; readonly body: string; readonly destroy?: boolean };

export type SearxngScript = (query: URLSearchParams) => SearxngReply;

export interface SearxngServer extends Omit<Listener, 'origin'> {
  /** Base URL without a path; searches go to `/search`. */
  readonly url: string;
  /** What was asked, as its query string says. */
  readonly asked: readonly URLSearchParams[];
}

const findsOnePage: SearxngScript = (query) => ({
  kind: 'results',
  results: [{ title: 'Loopback', url: 'https://example.org/loopback', content: `About ${query.get('q')}.`, score: 1 }],
});

/** A server on 127.0.0.1 that speaks SearXNG's `GET /search?format=json`; other formats it does not have. */
export async function startSearxngServer(script: SearxngScript = findsOnePage): Promise<SearxngServer> {
  const asked: URLSearchParams[] = [];
  const { origin, ...listener } = await listenOnLoopback(async (request, response) => {
    if (request.method !== 'GET' || request.path !== '/search') return sendJson(response, 404, {});
    const query = new URL(response.req.url ?? '/', 'http://127.0.0.1').searchParams;
    asked.push(query);
    if (query.get('format') !== 'json') return sendJson(response, 406, {});
    send(script(query), query, request, response);
  });
  return { ...listener, url: origin, asked };
}

function send(reply: SearxngReply, query: URLSearchParams, request: ReceivedRequest, response: ServerResponse): void {
  if (reply.kind === 'silence') return;
  if (reply.kind === 'status') {
    response.writeHead(reply.status, { 'content-type': 'text/html', ...reply.headers });
    response.end('<html>refused</html>');
    return;
  }
  if (reply.kind === 'raw') {
    response.writeHead(200, { 'content-type': 'application/json', 'transfer-encoding': 'chunked' });
    response.write(reply.body, () => (reply.destroy ? request.cut() : response.end()));
    return;
  }
  sendJson(response, 200, {
    query: query.get('q'),
    number_of_results: 0,
    results: reply.results.map((result) => ({ ...result, engine: 'loopback', category: 'general', positions: [1] })),
    answers: [],
    corrections: [],
    infoboxes: [],
    suggestions: [],
    unresponsive_engines: reply.unresponsive ?? [],
  });
}
