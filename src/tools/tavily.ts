import { z } from 'zod';
import { type Usage, usageOf } from '../cost/usage.ts';
import type { SearchFailureKind, SearchRequest, SearchSource } from './search-source.ts';
import { createWebSource, type WebSearchOptions, webResult } from './web-search.ts';

export interface TavilyOptions extends WebSearchOptions {
  readonly apiKey: string;
  readonly baseUrl?: string;
}

/** What a basic search costs by the price list, for when the answer does not say; a credit is one `call`. */
const basicSearch: Usage = usageOf({ calls: 1 });

export function createTavilySource(options: TavilyOptions): SearchSource {
  const { apiKey, baseUrl = 'https://api.tavily.com' } = options;
  const requestOf = ({ query, limit }: SearchRequest) => ({
    url: `${baseUrl}/search`,
    method: 'POST' as const,
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query, max_results: limit, search_depth: 'basic', include_usage: true }),
  });
  return createWebSource(options, { mostUsage: basicSearch, requestOf, read, statuses });
}

/** Far beyond any search; what claims more is no figure, and could not be counted as money. */
const mostCredits = 1_000;

const answerSchema = z.object({
  results: z.array(webResult),
  usage: z
    .object({ credits: z.number().nonnegative().max(mostCredits) })
    .optional()
    .catch(undefined),
});

function read(answer: unknown) {
  const { data } = answerSchema.safeParse(answer);
  if (!data) return undefined;
  const { results, usage } = data;
  if (usage === undefined) return { results, usage: basicSearch, estimated: true };
  return { results, usage: usageOf({ calls: Math.ceil(usage.credits) }) };
}

const statuses: Readonly<Record<number, readonly [SearchFailureKind, string]>> = {
  400: ['rejected', 'The search engine rejected the query'],
  401: ['unauthorized', 'The search engine refused our key'],
  403: ['unauthorized', 'The search engine refused our key'],
  429: ['rate_limited', 'The search engine limits our rate'],
  432: ['exhausted', 'The plan at the search engine is used up'],
  433: ['exhausted', 'The spending limit at the search engine is reached'],
};
