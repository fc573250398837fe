import { z } from 'zod';
import { type Usage, usageOf } from '../cost/usage.ts';
import { SearchFailure, type SearchFailureKind, type SearchRequest, type SearchSource } from './search-source.ts';
import { createWebSource, type WebSearchOptions, webResult } from './web-search.ts';

export interface SearxngOptions extends WebSearchOptions {
  /** Of the operator's own instance; it may well be private. */
  readonly baseUrl: string;
}

const oneSearch: Usage = usageOf({ calls: 1 });

/** Web search at a SearXNG instance, which asks other engines in its own name. */
export function createSearxngSource(options: SearxngOptions): SearchSource {
  const address = `${options.baseUrl.replace(/\/+$/, '')}/search`;
  const requestOf = ({ query }: SearchRequest) => ({
    url: `${address}?${new URLSearchParams({ q: query, format: 'json' })}`,
    method: 'GET' as const,
  });
  return createWebSource(options, { mostUsage: oneSearch, requestOf, read, statuses });
}

const answerSchema = z.object({
  results: z.array(webResult),
  /** Engines that gave it nothing, with the reason. */
  unresponsive_engines: z.array(z.unknown()).catch([]),
});

function read(answer: unknown) {
  const { data } = answerSchema.safeParse(answer);
  if (!data) return undefined;
  if (data.results.length === 0 && data.unresponsive_engines.length > 0) {
    throw new SearchFailure('unavailable', 'None of the engines behind the search answered.', { usage: oneSearch });
  }
  return { results: data.results, usage: oneSearch };
}

const statuses: Readonly<Record<number, readonly [SearchFailureKind, string]>> = {
  400: ['rejected', 'The search engine rejected the query'],
  403: ['unauthorized', 'The search engine refused: its json format is disabled in settings.yml'],
  429: ['rate_limited', 'The search engine limits our rate'],
};
