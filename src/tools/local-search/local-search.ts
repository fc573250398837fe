import { setImmediate as nextTick } from 'node:timers/promises';
import MiniSearch from 'minisearch';
import type { EvidenceDocument } from '../../contract/evidence.ts';
import { usageOf } from '../../cost/usage.ts';
import type { Embedder } from '../../inference/embedder.ts';
import type { PrivacyClass } from '../../preferences/privacy.ts';
import { cancelled, throwIfCancelled } from '../cancelled.ts';
import { cleanText } from '../clean-text.ts';
import type { Found, SearchRequest, SearchSource } from '../search-source.ts';
import { type Chunk, chunkText } from './chunk.ts';
import { htmlText } from './html-text.ts';
import { createVectorIndex, fuseRanks } from './vectors.ts';
import { type SkipReason, type TextFile, walkFolder } from './walk-folder.ts';
import { createWordReader, functionWords } from './words.ts';

export interface LocalSearchOptions {
  readonly name: string;
  readonly meter: string;
  readonly folders: readonly string[];
  /** JSON and CSV files too, which are seldom written to be read. */
  readonly withData?: boolean;
  /** Class of the documents: their text travels to no slot of a lower one. */
  readonly privacy: PrivacyClass;
  /** With it, passages are found by meaning as well; words alone until they are embedded, and without it. */
  readonly embedder?: Embedder;
  readonly signal?: AbortSignal;
}

interface LocalSearchStats {
  readonly files: number;
  readonly chunks: number;
  readonly skipped: Readonly<Record<SkipReason, number>>;
}

export interface LocalSearch extends SearchSource {
  stats(): LocalSearchStats;
  /** Once all passages are embedded: of how many only the head was read. Undefined when they cannot be. */
  readonly embedded: Promise<number | undefined>;
  /** Gives the embedding up. */
  close(): void;
}

interface Entry extends Chunk {
  readonly id: number;
  readonly path: string;
  readonly title: string;
}

const documentCodePoints = 4_000;
/** Share of the query's information that a chunk must hold; below it, another source may know more. */
const leastCoverage = 0.25;
/** Longest time for which indexing keeps everything else waiting, but for one chunk. */
const longestBusyMs = 15;
const oneSearch = usageOf({ calls: 1 });

/** How far down each ranking the fusion looks. */
const fusedDepth = 50;

/**
 * BM25 over folders of Markdown, text and HTML, in memory, fused with nearness of meaning where there is an embedder. The
 * query never leaves the process, so the source itself is `local` whatever class its documents have.
 * @throws when a folder cannot be read
 */
export async function createLocalSearch(options: LocalSearchOptions): Promise<LocalSearch> {
  const { name, meter, privacy } = options;
  const index = createIndex();
  const stats = await fill(index, options);
  const closing = new AbortController();
  const vectors = options.embedder && createVectorIndex(options.embedder, closing.signal);
  // An embedder that dies leaves what it has done; words find the rest.
  const embedded = vectors?.fill(index.texts()).catch(() => undefined) ?? Promise.resolve(undefined);

  async function search({ query, limit, signal }: SearchRequest): Promise<Found> {
    throwIfCancelled(signal);
    const byMeaning = (await vectors?.find(query, fusedDepth, signal)) ?? [];
    throwIfCancelled(signal);
    const byWords = index.find(query, byMeaning.length > 0 ? fusedDepth : limit);
    const entries = index.entries(fuseRanks([byWords, byMeaning]).slice(0, limit));
    return { documents: entries.map((entry) => toDocument(entry, name, privacy)), usage: oneSearch };
  }
  const close = () => closing.abort();
  return { name, meter, privacy: 'local', mostUsage: oneSearch, search, stats: () => stats, embedded, close };
}

const fewestChunks = 20;

type Index = ReturnType<typeof createIndex>;

function createIndex() {
  const wordsOf = createWordReader();
  const entries: Entry[] = [];
  const chunksWith = new Map<string, number>();
  const postings = new MiniSearch<Entry>({
    fields: ['title', 'headings', 'text'],
    extractField: (entry, field) => (field === 'headings' ? entry.headings.join('\n') : String(entry[field as 'text'])),
    tokenize: wordsOf,
    processTerm: (word) => word,
    searchOptions: { boost: { title: 2, headings: 2 }, combineWith: 'OR' },
  });

  /**
   * How much a word says: one that stands everywhere says nothing, one that stands nowhere the most. A handful of chunks
   * cannot tell how common a word is, so there are never taken to be fewer than `fewestChunks`.
   */
  const information = (word: string): number => {
    if (functionWords.has(word)) return 0;
    const count = chunksWith.get(word) ?? 0;
    return Math.log(1 + (Math.max(entries.length, fewestChunks) - count + 0.5) / (count + 0.5));
  };
  const informationOf = (words: readonly string[]): number => words.reduce((sum, word) => sum + information(word), 0);

  return {
    add(chunk: Omit<Entry, 'id'>): void {
      const entry = { ...chunk, id: entries.length };
      entries.push(entry);
      postings.add(entry);
      const words = new Set(wordsOf([entry.title, ...entry.headings, entry.text].join('\n')));
      for (const word of words) chunksWith.set(word, (chunksWith.get(word) ?? 0) + 1);
    },
    /** As they are embedded: with the headings that say what they are about. */
    texts: (): string[] => entries.map(({ title, headings, text }) => [title, ...headings, text].join('\n')),
    entries: (ids: readonly number[]): Entry[] => ids.flatMap((id) => entries[id] ?? []),
    find(query: string, limit: number): number[] {
      const least = leastCoverage * informationOf([...new Set(wordsOf(query))]);
      return postings
        .search(query)
        .filter(({ queryTerms }) => informationOf(queryTerms) >= least)
        .slice(0, limit)
        .map(({ id }) => Number(id));
    },
  };
}

async function fill(
  index: Index,
  { folders, withData = false, signal }: LocalSearchOptions,
): Promise<LocalSearchStats> {
  const counts = { files: 0, chunks: 0, skipped: { too_large: 0, unreadable: 0 } };
  const breathe = createBreather();
  const take = async (file: TextFile) => {
    counts.files += 1;
    for (const chunk of chunksOf(file)) {
      index.add(chunk);
      counts.chunks += 1;
      await breathe();
    }
  };
  for (const folder of folders) {
    for await (const file of walkFolder(folder, withData)) {
      if (signal?.aborted) throw cancelled();
      if ('skipped' in file) counts.skipped[file.skipped] += 1;
      else await take(file);
    }
  }
  return counts;
}

/** Lets others have the process once it was kept busy for long. */
function createBreather(): () => Promise<void> {
  let busySinceMs = performance.now();
  return async () => {
    if (performance.now() - busySinceMs < longestBusyMs) return;
    await nextTick();
    busySinceMs = performance.now();
  };
}

function chunksOf({ path, text }: TextFile): Omit<Entry, 'id'>[] {
  const chunks = chunkText(/\.html?$/i.test(path) ? htmlText(text) : text);
  const title = chunks.find(({ headings }) => headings.length > 0)?.headings[0] ?? path;
  return chunks.map((chunk) => ({ ...chunk, path, title }));
}

function toDocument(
  { path, title, headings, line, text }: Entry,
  source: string,
  privacy: PrivacyClass,
): EvidenceDocument {
  const trail = [...new Set([title, ...headings])].join(' › ');
  const anchor = headings.at(-1) === undefined ? `L${line}` : slug(headings.at(-1) ?? '');
  return {
    text: cleanText(text, documentCodePoints),
    source,
    title: cleanText(trail, 200),
    url: `file:${encodeURI(path)}#${anchor}`,
    privacy,
  };
}

/** A heading's anchor as Markdown renderers make it. */
const slug = (heading: string): string =>
  encodeURIComponent(
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replace(/ /g, '-'),
  );
