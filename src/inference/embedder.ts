/**
 * A sentence embedding or a reranker, ready to work. Rejects with EngineFailure, or with an AbortError when the signal fires.
 */
export interface Embedder {
  readonly info: EmbedderInfo;
  /** Unit vectors, one a text, in order. Of long texts the head counts. */
  embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]>;
  close(): Promise<void>;
}

export interface Ranker {
  /**
   * How well each text answers the query, in order: a reranker's judgement from 0 to 1, an embedding's cosine from -1 to 1.
   * Comparable within one call.
   */
  rank(query: string, texts: readonly string[], signal: AbortSignal): Promise<readonly number[]>;
}

export interface EmbedderInfo {
  /** Of the vectors; 0 for a reranker, which has none. */
  readonly dimensions: number;
  /** SHA-256 of the weights file, hex: vectors of different weights must never be compared. */
  readonly weightsHash: string;
}
