import { createLocalSearch } from '../tools/local-search/local-search.ts';
import type { SearchSource } from '../tools/search-source.ts';
import { createTavilySource } from '../tools/tavily.ts';
import type { Config } from './config.ts';
import { toolMeter } from './prices.ts';

export interface OpenedSources {
  readonly sources: ReadonlyMap<string, SearchSource>;
  readonly notes: readonly string[];
}

/** Builds the indexes and connects the search engines that the configuration names. */
export async function openSources(config: Config): Promise<OpenedSources> {
  const sources = new Map<string, SearchSource>();
  const notes: string[] = [];
  for (const [name, tool] of Object.entries(config.tools)) {
    if (tool.kind === 'tavily') {
      const { api_key: apiKey, privacy, base_url: baseUrl } = tool;
      const address = baseUrl === undefined ? {} : { baseUrl };
      sources.set(name, createTavilySource({ name, meter: toolMeter(name), apiKey, privacy, ...address }));
    }
    if (tool.kind === 'local_search') {
      const { folders, privacy } = tool;
      const index = await createLocalSearch({ name, meter: toolMeter(name), folders, privacy });
      const { files, chunks, skipped } = index.stats();
      const left = Object.values(skipped).reduce((sum, count) => sum + count, 0);
      notes.push(
        `${name}: ${chunks} passages of ${files} files are searchable${left > 0 ? `, ${left} files skipped` : ''}`,
      );
      if (chunks > 0) sources.set(name, index);
    }
  }
  return { sources, notes };
}
