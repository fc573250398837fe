import type { Embedder } from '../inference/embedder.ts';
import { createLocalSearch, type LocalSearch, type LocalSearchOptions } from '../tools/local-search/local-search.ts';
import type { SearchSource } from '../tools/search-source.ts';
import { createSearxngSource } from '../tools/searxng.ts';
import { createTavilySource } from '../tools/tavily.ts';
import type { Config, ToolConfig } from './config.ts';
import type { OpenedEmbeddings } from './embedding.ts';
import { ConfigError } from './load-config.ts';
import { toolMeter } from './prices.ts';

export interface OpenedSources {
  readonly sources: ReadonlyMap<string, SearchSource>;
  /** Ends what still goes on in the background. */
  close(): void;
}

/**
 * Builds the indexes and connects the search engines that the configuration names.
 * @param notes get what is searchable, and later what turned out while it was embedded.
 * @throws ConfigError for a folder that cannot be read.
 */
export async function openSources(
  config: Config,
  embeddings: Pick<OpenedEmbeddings, 'bundled' | 'named'>,
  notes: string[],
): Promise<OpenedSources> {
  const sources = new Map<string, SearchSource>();
  const indexes: LocalSearch[] = [];
  for (const [name, tool] of Object.entries(config.tools)) {
    if (tool.kind === 'local_search') {
      const embedder = tool.embedding === undefined ? embeddings.bundled : embeddings.named.get(tool.embedding);
      const index = await openIndex(name, tool, embedder, notes);
      indexes.push(index);
      if (index.stats().chunks > 0) sources.set(name, index);
    } else {
      const engine = searchEngine(name, tool);
      if (engine) sources.set(name, engine);
    }
  }
  const close = () => {
    for (const index of indexes) index.close();
  };
  return { sources, close };
}

function searchEngine(name: string, tool: ToolConfig): SearchSource | undefined {
  const meter = toolMeter(name);
  if (tool.kind === 'tavily') {
    const { api_key: apiKey, privacy, base_url: baseUrl } = tool;
    return createTavilySource({ name, meter, apiKey, privacy, ...(baseUrl === undefined ? {} : { baseUrl }) });
  }
  if (tool.kind === 'searxng')
    return createSearxngSource({ name, meter, baseUrl: tool.base_url, privacy: tool.privacy });
  return undefined;
}

/** An index without a passage has nothing to offer; its note says so. */
async function openIndex(
  name: string,
  { folders, data: withData, privacy }: Extract<ToolConfig, { kind: 'local_search' }>,
  embedder: Embedder | undefined,
  notes: string[],
): Promise<LocalSearch> {
  const meter = toolMeter(name);
  const index = await indexOf({ name, meter, folders, withData, privacy, ...(embedder ? { embedder } : {}) });
  notes.push(whatIsIn(index));
  void index.embedded.then((cut) => cut && notes.push(cutNote(index, cut)));
  return index;
}

function whatIsIn(index: LocalSearch): string {
  const { files, chunks, skipped } = index.stats();
  const left = Object.values(skipped).reduce((sum, count) => sum + count, 0);
  return `${index.name}: ${chunks} passages of ${files} files are searchable${left > 0 ? `, ${left} files skipped` : ''}`;
}

const cutNote = (index: LocalSearch, cut: number): string =>
  `${index.name}: of ${cut} of ${index.stats().chunks} passages the embedding reads the beginning only; words find all of it`;

async function indexOf(options: LocalSearchOptions): Promise<LocalSearch> {
  try {
    return await createLocalSearch(options);
  } catch (error) {
    if (!(error instanceof Error && 'path' in error && 'code' in error)) throw error;
    throw new ConfigError([
      `tools.${options.name}.folders: ${error.path} cannot be read (${error.code}): correct the path`,
    ]);
  }
}
