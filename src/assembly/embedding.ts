import { availableParallelism } from 'node:os';
import { findModel } from '../inference/downloads/catalog.ts';
import { DownloadFailure } from '../inference/downloads/failure.ts';
import type { Embedder } from '../inference/embedder.ts';
import { EngineFailure } from '../inference/engine.ts';
import { startEmbedder } from '../inference/start-embedder.ts';
import { threadsFor } from '../inference/start-engine.ts';
import { readHeads } from '../router/policies/heads.ts';
import type { ProblemReader } from '../router/policies/problem-reading.ts';
import { createProblemReader } from '../router/policies/read-problem.ts';
import type { Config, EmbeddingConfig } from './config.ts';

/** Sentence embeddings that run here, and what is made of the bundled one. */
export interface OpenedEmbeddings {
  /** Undefined where it cannot run, as is `readProblem`. */
  readonly bundled: Embedder | undefined;
  readonly readProblem: ProblemReader | undefined;
  /** By the name in `embeddings`; one that cannot run is missing. */
  readonly named: ReadonlyMap<string, Embedder>;
  close(): Promise<void>;
}

const bundledModel = 'all-minilm-l6-v2';
/** Of a GGUF that models/downloads.json does not know; what most of them were trained on. */
const unknownMostTokens = 512;

/**
 * Everything works without them, only less well, so a failure is a note.
 * @param withBundled false: words alone decide and find.
 */
export async function openEmbeddings(
  { embeddings }: Config,
  modelsFolder: string,
  withBundled: boolean,
  notes: string[],
): Promise<OpenedEmbeddings> {
  const bundled = withBundled ? await open({ path: bundledModel }, modelsFolder) : undefined;
  if (typeof bundled === 'string') notes.push(`embedding: none, so words alone decide and find (${bundled})`);
  const named = new Map<string, Embedder>();
  for (const [name, config] of Object.entries(embeddings)) {
    const opened = await open(config, modelsFolder);
    if (typeof opened === 'string') notes.push(`embeddings.${name} is left out: ${opened}`);
    else named.set(name, opened);
  }
  const embedder = typeof bundled === 'string' ? undefined : bundled;
  return {
    bundled: embedder,
    readProblem: embedder && readerWith(embedder, notes),
    named,
    close: async () => {
      await Promise.all([embedder, ...named.values()].map((opened) => opened?.close()));
    },
  };
}

/** Or why not, in words. */
async function open(config: EmbeddingConfig, modelsFolder: string): Promise<Embedder | string> {
  try {
    const { path: modelPath, entry } = await findModel(config.path, modelsFolder);
    const known = entry?.embedding;
    const embedder = await startEmbedder({
      modelPath,
      threads: config.threads ?? threadsFor(availableParallelism()),
      mostTokens: config.context ?? known?.mostTokens ?? unknownMostTokens,
      instructions: {
        query: config.query ?? known?.instructions?.query ?? '',
        document: config.document ?? known?.instructions?.document ?? '',
      },
    });
    if (embedder.info.dimensions > 0) return embedder;
    await embedder.close();
    return `${config.path} ranks texts and gives no vectors`;
  } catch (error) {
    if (error instanceof EngineFailure || error instanceof DownloadFailure) return error.message;
    throw error;
  }
}

function readerWith(embedder: Embedder, notes: string[]): ProblemReader | undefined {
  const heads = readHeads();
  if (heads.embeddingSha256 === embedder.info.weightsHash) return createProblemReader(embedder, heads);
  notes.push('estimate: the heads were trained on another embedding');
  return undefined;
}
