import { type Dispatcher, request as send } from 'undici';
import { z } from 'zod';
import type { EvidenceDocument } from '../contract/evidence.ts';
import { type Usage, usageOf } from '../cost/usage.ts';
import type { PrivacyClass } from '../preferences/privacy.ts';
import { cancelled, throwIfCancelled } from './cancelled.ts';
import { cleanText } from './clean-text.ts';
import {
  type Found,
  SearchFailure,
  type SearchFailureKind,
  type SearchRequest,
  type SearchSource,
} from './search-source.ts';

export interface TavilyOptions {
  readonly name: string;
  readonly meter: string;
  readonly apiKey: string;
  readonly privacy: PrivacyClass;
  readonly baseUrl?: string;
  readonly timeoutMs?: number;
  readonly maxResponseBytes?: number;
  /** Left out: undici's own pool. */
  readonly dispatcher?: Dispatcher;
}

/** What a basic search costs by the price list, for when the answer does not say; a credit is one `call`. */
const basicSearch: Usage = usageOf({ calls: 1 });
const documentCodePoints = 4_000;
const titleCodePoints = 200;
/** Of an error we read past this much to keep the connection; its text is never looked at. */
const errorBodyBytes = 16_384;

/** Web search at Tavily. Pages are public, so what is found has the class `any`; the query is what needs protection. */
export function createTavilySource(options: TavilyOptions): SearchSource {
  const { name, meter, privacy, timeoutMs = 30_000 } = options;

  async function search(request: SearchRequest): Promise<Found> {
    throwIfCancelled(request.signal);
    const silence = AbortSignal.timeout(timeoutMs);
    try {
      const answer = await ask(options, request, AbortSignal.any([request.signal, silence]));
      const documents = answer.results.flatMap((result) => toDocument(result, name)).slice(0, request.limit);
      const credits = answer.usage?.credits;
      return credits === undefined
        ? { documents, usage: basicSearch, estimated: true }
        : { documents, usage: usageOf({ calls: Math.ceil(credits) }) };
    } catch (thrown) {
      if (request.signal.aborted) throw cancelled();
      throw silence.aborted ? mayBeBilled('The search engine was silent for too long.') : asFailure(thrown);
    }
  }
  return { name, meter, privacy, mostUsage: basicSearch, search };
}

async function ask(options: TavilyOptions, { query, limit }: SearchRequest, signal: AbortSignal): Promise<Answer> {
  const { baseUrl = 'https://api.tavily.com', apiKey, dispatcher, maxResponseBytes = 2 * 1024 ** 2 } = options;
  const response = await send(`${baseUrl}/search`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${apiKey}`,
      'content-type': 'application/json',
      'accept-encoding': 'identity',
    },
    body: JSON.stringify({ query, max_results: limit, search_depth: 'basic', include_usage: true }),
    signal,
    ...(dispatcher ? { dispatcher } : {}),
  });
  if (response.statusCode !== 200) {
    await response.body.dump({ limit: errorBodyBytes, signal });
    throw failureOf(response.statusCode);
  }
  const parsed = answerSchema.safeParse(parseJson(await readCapped(response.body, maxResponseBytes)));
  if (!parsed.success) throw mayBeBilled('The search engine sent something that is not a result.');
  return parsed.data;
}

/** Tolerant of all but what is used: one odd result costs itself, not the others. */
const resultSchema = z.object({
  title: z.string().catch(''),
  url: z.string().catch(''),
  content: z.string().catch(''),
});
type Result = z.infer<typeof resultSchema>;

const answerSchema = z.object({
  results: z.array(resultSchema.catch({ title: '', url: '', content: '' })),
  usage: z.object({ credits: z.number().nonnegative() }).optional().catch(undefined),
});
type Answer = z.infer<typeof answerSchema>;

function toDocument(result: Result, source: string): EvidenceDocument[] {
  const text = cleanText(result.content, documentCodePoints);
  if (text === '') return [];
  const title = cleanText(result.title, titleCodePoints);
  return [
    {
      text,
      source,
      privacy: 'any',
      ...(title === '' ? {} : { title }),
      ...(/^https?:\/\/\S+$/.test(result.url) ? { url: result.url } : {}),
    },
  ];
}

async function readCapped(body: AsyncIterable<Buffer>, limit: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > limit) throw mayBeBilled('The search engine sent more than is allowed.');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const statuses: Record<number, readonly [SearchFailureKind, string]> = {
  400: ['rejected', 'The search engine rejected the query'],
  401: ['unauthorized', 'The search engine refused our key'],
  403: ['unauthorized', 'The search engine refused our key'],
  429: ['rate_limited', 'The search engine limits our rate'],
  432: ['exhausted', 'The plan at the search engine is used up'],
  433: ['exhausted', 'The spending limit at the search engine is reached'],
};

function failureOf(status: number): SearchFailure {
  const fallback = status >= 500 ? (['unavailable', 'The search engine failed'] as const) : undefined;
  const [kind, sentence] = statuses[status] ?? fallback ?? ['rejected', 'The search engine refused the request'];
  return new SearchFailure(kind, `${sentence} (status ${status}).`);
}

const mayBeBilled = (message: string): SearchFailure =>
  new SearchFailure('unavailable', message, { usage: basicSearch });

/** Whatever the network threw: its message names hosts, so it stays in the cause. */
const asFailure = (thrown: unknown): SearchFailure =>
  thrown instanceof SearchFailure
    ? thrown
    : new SearchFailure('unavailable', 'The connection to the search engine failed.', { cause: thrown });
