import { availableParallelism } from 'node:os';
import { findModel } from '../inference/downloads/catalog.ts';
import type { Embedder } from '../inference/embedder.ts';
import { EngineFailure } from '../inference/engine.ts';
import { startEmbedder } from '../inference/start-embedder.ts';
import { threadsFor } from '../inference/start-engine.ts';
import { readHeads } from '../router/policies/heads.ts';
import type { ProblemReader } from '../router/policies/problem-reading.ts';
import { createProblemReader } from '../router/policies/read-problem.ts';

/** The bundled sentence embedding, and what is made of it; undefined where it cannot run. */
export interface OpenedEmbedding {
  readonly embedder: Embedder | undefined;
  readonly readProblem: ProblemReader | undefined;
  readonly notes: readonly string[];
}

export const noEmbedding: OpenedEmbedding = { embedder: undefined, readProblem: undefined, notes: [] };

const embeddingModel = 'all-minilm-l6-v2';

/** Everything works without it, only less well, so a failure is a note. */
export async function openEmbedding(modelsFolder: string): Promise<OpenedEmbedding> {
  try {
    const { path: modelPath } = await findModel(embeddingModel, modelsFolder);
    const embedder = await startEmbedder({ modelPath, threads: threadsFor(availableParallelism()) });
    const heads = readHeads();
    if (heads.embeddingSha256 === embedder.info.weightsHash) {
      return { embedder, readProblem: createProblemReader(embedder, heads), notes: [] };
    }
    return { embedder, readProblem: undefined, notes: ['estimate: the heads were trained on another embedding'] };
  } catch (error) {
    if (!(error instanceof EngineFailure)) throw error;
    return { ...noEmbedding, notes: [`embedding: none, so words alone decide and find (${error.message})`] };
  }
}
