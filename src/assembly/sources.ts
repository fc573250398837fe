import type { PrivacyClass } from '../preferences/privacy.ts';
import { createLocalSearch, type LocalSearch } from '../tools/local-search/local-search.ts';
import type { SearchSource } from '../tools/search-source.ts';
import { createSearxngSource } from '../tools/searxng.ts';
import { createTavilySource } from '../tools/tavily.ts';
import type { Config } from './config.ts';
import { ConfigError } from './load-config.ts';
import { toolMeter } from './prices.ts';

export interface OpenedSources {
  readonly sources: ReadonlyMap<string, SearchSource>;
  readonly notes: readonly string[];
}

/**
 * Builds the indexes and connects the search engines that the configuration names.
 * @throws ConfigError for a folder that cannot be read.
 */
export async function openSources(config: Config): Promise<OpenedSources> {
  const sources = new Map<string, SearchSource>();
  const notes: string[] = [];
  for (const [name, tool] of Object.entries(config.tools)) {
    if (tool.kind === 'tavily') {
      const { api_key: apiKey, privacy, base_url: baseUrl } = tool;
      const address = baseUrl === undefined ? {} : { baseUrl };
      sources.set(name, createTavilySource({ name, meter: toolMeter(name), apiKey, privacy, ...address }));
    }
    if (tool.kind === 'searxng') {
      const { base_url: baseUrl, privacy } = tool;
      sources.set(name, createSearxngSource({ name, meter: toolMeter(name), baseUrl, privacy }));
    }
    if (tool.kind === 'local_search') {
      const { folders, privacy } = tool;
      const index = await indexOf(name, folders, privacy);
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

async function indexOf(name: string, folders: readonly string[], privacy: PrivacyClass): Promise<LocalSearch> {
  try {
    return await createLocalSearch({ name, meter: toolMeter(name), folders, privacy });
  } catch (error) {
    if (!(error instanceof Error && 'path' in error && 'code' in error)) throw error;
    throw new ConfigError([`tools.${name}.folders: ${error.path} cannot be read (${error.code}): correct the path`]);
  }
}
