/** What texts are embedded for; models that were trained with instructions give a query and its document each its own. */
export type TextUse = 'query' | 'document';

export interface EmbedRequest {
  readonly texts: readonly string[];
  /** Left out: the texts stand for themselves, without an instruction. */
  readonly use?: TextUse | undefined;
  /** Of a text longer than `info.mostTokens`: `cut` reads its head; `refuse` rejects them all as `context_full`. */
  readonly longTexts: 'cut' | 'refuse';
  readonly signal: AbortSignal;
}

export interface Embedded {
  /** Unit vectors, one a text, in order. */
  readonly vectors: readonly Float32Array[];
  /** Tokens that were read, instructions and the model's own marks included. */
  readonly tokens: number;
  /** How many of the texts were cut. */
  readonly cutTexts: number;
}

/**
 * A sentence embedding or a reranker, ready to work. Rejects with EngineFailure, or with an AbortError when the signal fires.
 */
export interface Embedder {
  readonly info: EmbedderInfo;
  embed(request: EmbedRequest): Promise<Embedded>;
  close(): Promise<void>;
}

export interface Ranker {
  /**
   * How well each text answers the query, in order: a reranker's judgement from 0 to 1, an embedding's cosine from -1 to 1.
   * Comparable within one call. Of long texts the head counts.
   */
  rank(query: string, texts: readonly string[], signal: AbortSignal): Promise<readonly number[]>;
}

export interface EmbedderInfo {
  /** Of the vectors; 0 for a reranker, which has none. */
  readonly dimensions: number;
  /** The longest text that it reads whole, instruction included. */
  readonly mostTokens: number;
  /** SHA-256 of the weights file, hex: vectors of different weights must never be compared. */
  readonly weightsHash: string;
}

/** No vocabulary has longer words on an average, and the tokenizer would read a whole book for its first page. */
export const mostCodePointsPerToken = 16;
