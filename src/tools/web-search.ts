import { type Dispatcher, request as send } from 'undici';
import { z } from 'zod';
import type { EvidenceDocument } from '../contract/evidence.ts';
import type { Usage } from '../cost/usage.ts';
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

/** What every search engine is reached with. */
export interface WebSearchOptions {
  readonly name: string;
  readonly meter: string;
  /** Class of whoever sees the query. */
  readonly privacy: PrivacyClass;
  readonly timeoutMs?: number;
  readonly maxResponseBytes?: number;
  /** Left out: undici's own pool. */
  readonly dispatcher?: Dispatcher;
}

/** How one search engine is spoken to. */
export interface SearchDialect {
  readonly mostUsage: Usage;
  requestOf(request: SearchRequest): EngineRequest;
  /** Undefined when this is no answer. @throws SearchFailure when it is one that tells of a failure. */
  read(answer: unknown): EngineAnswer | undefined;
  /** What a status means, where it means something of its own. */
  readonly statuses: Readonly<Record<number, readonly [SearchFailureKind, string]>>;
}

interface EngineRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

interface EngineAnswer {
  readonly results: readonly WebResult[];
  readonly usage: Usage;
  readonly estimated?: boolean;
}

/** Tolerant of all but what is used: one odd result costs itself, not the others. */
export const webResult = z
  .object({ title: z.string().catch(''), url: z.string().catch(''), content: z.string().catch('') })
  .catch({ title: '', url: '', content: '' });
type WebResult = z.infer<typeof webResult>;

const documentCodePoints = 4_000;
const titleCodePoints = 200;
/** Longer ones are nothing to cite, and would be paid for at every later step. */
const longestUrl = 2_000;
/** Of an error we read past this much to keep the connection; its text is never looked at. */
const errorBodyBytes = 16_384;

/** Pages are public, so what is found has the class `any`; the query is what needs protection. */
export function createWebSource(options: WebSearchOptions, dialect: SearchDialect): SearchSource {
  const { name, meter, privacy, timeoutMs = 30_000 } = options;
  const { mostUsage } = dialect;

  async function search(request: SearchRequest): Promise<Found> {
    throwIfCancelled(request.signal);
    const silence = AbortSignal.timeout(timeoutMs);
    try {
      const signal = AbortSignal.any([request.signal, silence]);
      const { results, ...billed } = await ask(options, dialect, request, signal);
      const documents = results.flatMap((result) => toDocument(result, name)).slice(0, request.limit);
      return { documents, ...billed };
    } catch (thrown) {
      if (request.signal.aborted) throw cancelled();
      throw silence.aborted ? mayBeBilled('The search engine was silent for too long.', mostUsage) : asFailure(thrown);
    }
  }
  return { name, meter, privacy, mostUsage, longestMs: timeoutMs, search };
}

async function ask(
  { dispatcher, maxResponseBytes = 2 * 1024 ** 2 }: WebSearchOptions,
  dialect: SearchDialect,
  request: SearchRequest,
  signal: AbortSignal,
): Promise<EngineAnswer> {
  const { url, method, headers = {}, body } = dialect.requestOf(request);
  const response = await send(url, {
    method,
    headers: { ...headers, accept: 'application/json', 'accept-encoding': 'identity' },
    signal,
    ...(body === undefined ? {} : { body }),
    ...(dispatcher ? { dispatcher } : {}),
  });
  if (response.statusCode !== 200) {
    await response.body.dump({ limit: errorBodyBytes, signal });
    throw failureOf(response.statusCode, dialect);
  }
  const text = await readCapped(response.body, maxResponseBytes, dialect.mostUsage);
  const answer = dialect.read(parseJson(text));
  if (!answer) throw mayBeBilled('The search engine sent something that is not a result.', dialect.mostUsage);
  return answer;
}

function failureOf(status: number, { statuses }: SearchDialect): SearchFailure {
  const fallback = status >= 500 ? (['unavailable', 'The search engine failed'] as const) : undefined;
  const [kind, sentence] = statuses[status] ?? fallback ?? ['rejected', 'The search engine refused the request'];
  return new SearchFailure(kind, `${sentence} (status ${status}).`);
}

function toDocument(result: WebResult, source: string): EvidenceDocument[] {
  const text = cleanText(result.content, documentCodePoints);
  if (text === '') return [];
  const title = cleanText(result.title, titleCodePoints);
  return [
    {
      text,
      source,
      privacy: 'any',
      ...(title === '' ? {} : { title }),
      ...(isPage(result.url) ? { url: result.url } : {}),
    },
  ];
}

const isPage = (url: string): boolean => url.length <= longestUrl && /^https?:\/\/\S+$/.test(url);

async function readCapped(body: AsyncIterable<Buffer>, limit: number, billed: Usage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of body) {
      size += chunk.length;
      if (size > limit) throw mayBeBilled('The search engine sent more than is allowed.', billed);
      chunks.push(chunk);
    }
  } catch (thrown) {
    if (thrown instanceof SearchFailure) throw thrown;
    throw mayBeBilled('The search engine broke off.', billed, thrown);
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

const mayBeBilled = (message: string, usage: Usage, cause?: unknown): SearchFailure =>
  new SearchFailure('unavailable', message, { usage, cause });

/** Whatever the network threw: its message names hosts, so it stays in the cause. */
const asFailure = (thrown: unknown): SearchFailure =>
  thrown instanceof SearchFailure
    ? thrown
    : new SearchFailure('unavailable', 'The connection to the search engine failed.', { cause: thrown });
