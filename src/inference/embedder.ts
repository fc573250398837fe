/**
 * A sentence embedding, ready to work. Rejects with EngineFailure, or with an AbortError when the signal fires.
 */
export interface Embedder {
  readonly info: EmbedderInfo;
  /** Unit vectors, one a text, in order. Of long texts the head counts. */
  embed(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]>;
  close(): Promise<void>;
}

export interface EmbedderInfo {
  readonly dimensions: number;
  /** SHA-256 of the weights file, hex: vectors of different weights must never be compared. */
  readonly weightsHash: string;
}
