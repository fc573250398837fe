import type { PrivacyClass } from '../preferences/privacy.ts';
import { createLocalSearch, type LocalSearch } from '../tools/local-search/local-search.ts';
import type { SearchSource } from '../tools/search-source.ts';
import { createSearxngSource } from '../tools/searxng.ts';
import { createTavilySource } from '../tools/tavily.ts';
import type { Config, ToolConfig } from './config.ts';
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
    if (tool.kind === 'local_search') {
      const { index, note } = await openIndex(name, tool.folders, tool.privacy);
      notes.push(note);
      if (index) sources.set(name, index);
    } else {
      const engine = searchEngine(name, tool);
      if (engine) sources.set(name, engine);
    }
  }
  return { sources, notes };
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

/** An index without a passage has nothing to offer. */
async function openIndex(
  name: string,
  folders: readonly string[],
  privacy: PrivacyClass,
): Promise<{ readonly index: LocalSearch | undefined; readonly note: string }> {
  const index = await indexOf(name, folders, privacy);
  const { files, chunks, skipped } = index.stats();
  const left = Object.values(skipped).reduce((sum, count) => sum + count, 0);
  const note = `${name}: ${chunks} passages of ${files} files are searchable${left > 0 ? `, ${left} files skipped` : ''}`;
  return { index: chunks > 0 ? index : undefined, note };
}

async function indexOf(name: string, folders: readonly string[], privacy: PrivacyClass): Promise<LocalSearch> {
  try {
    return await createLocalSearch({ name, meter: toolMeter(name), folders, privacy });
  } catch (error) {
    if (!(error instanceof Error && 'path' in error && 'code' in error)) throw error;
    throw new ConfigError([`tools.${name}.folders: ${error.path} cannot be read (${error.code}): correct the path`]);
  }
}
