import type { Embedder } from '../inference/embedder.ts';
import { createLocalSearch, type LocalSearch, type LocalSearchOptions } from '../tools/local-search/local-search.ts';
import type { SearchSource } from '../tools/search-source.ts';
import { createSearxngSource } from '../tools/searxng.ts';
import { createTavilySource } from '../tools/tavily.ts';
import type { Config, ToolConfig } from './config.ts';
import { ConfigError } from './load-config.ts';
import { toolMeter } from './prices.ts';

export interface OpenedSources {
  readonly sources: ReadonlyMap<string, SearchSource>;
  readonly notes: readonly string[];
  /** Ends what still goes on in the background. */
  close(): void;
}

/**
 * Builds the indexes and connects the search engines that the configuration names.
 * @throws ConfigError for a folder that cannot be read.
 */
export async function openSources(config: Config, embedder: Embedder | undefined): Promise<OpenedSources> {
  const sources = new Map<string, SearchSource>();
  const notes: string[] = [];
  const indexes: LocalSearch[] = [];
  for (const [name, tool] of Object.entries(config.tools)) {
    if (tool.kind === 'local_search') {
      const { index, note } = await openIndex({
        name,
        meter: toolMeter(name),
        folders: tool.folders,
        withData: tool.data,
        privacy: tool.privacy,
        ...(embedder ? { embedder } : {}),
      });
      notes.push(note);
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
  return { sources, notes, close };
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
async function openIndex(options: LocalSearchOptions): Promise<{ readonly index: LocalSearch; readonly note: string }> {
  const index = await indexOf(options);
  const { files, chunks, skipped } = index.stats();
  const left = Object.values(skipped).reduce((sum, count) => sum + count, 0);
  const note = `${options.name}: ${chunks} passages of ${files} files are searchable${left > 0 ? `, ${left} files skipped` : ''}`;
  return { index, note };
}

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
