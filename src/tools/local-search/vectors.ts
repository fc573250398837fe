import type { Embedder } from '../../inference/embedder.ts';

/** Texts by nearness of meaning. */
export interface VectorIndex {
  /**
   * Embeds in the background, in the order given; what is not embedded yet is not found. Resolves with how many texts are
   * longer than the embedding reads.
   */
  fill(texts: readonly string[]): Promise<number>;
  /** Positions of the nearest texts, nearest first; none while the embedder cannot answer. */
  find(query: string, limit: number, signal: AbortSignal): Promise<readonly number[]>;
}

/** Texts less alike than this have nothing to do with each other. */
const leastLikeness = 0.3;
/** So many at a time, then they can be found. */
const batchSize = 4;

export function createVectorIndex(embedder: Embedder, signal: AbortSignal): VectorIndex {
  const { dimensions } = embedder.info;
  let vectors = new Float32Array(0);
  let filled = 0;

  async function embedQuery(text: string, stop: AbortSignal): Promise<Float32Array | undefined> {
    const asked = { texts: [text], use: 'query', longTexts: 'cut', signal: stop } as const;
    const embedded = await embedder.embed(asked).catch(() => undefined);
    return embedded?.vectors[0];
  }

  return {
    async fill(texts) {
      vectors = new Float32Array(texts.length * dimensions);
      filled = 0;
      let cut = 0;
      for (let at = 0; at < texts.length; at += batchSize) {
        const batch = texts.slice(at, at + batchSize);
        const embedded = await embedder.embed({ texts: batch, use: 'document', longTexts: 'cut', signal });
        for (const vector of embedded.vectors) vectors.set(vector, filled++ * dimensions);
        cut += embedded.cutTexts;
      }
      return cut;
    },
    async find(query, limit, stop) {
      if (filled === 0) return [];
      const wanted = await embedQuery(query, stop);
      if (wanted === undefined) return [];
      const likeness = Array.from({ length: filled }, (_, row) => ({ row, value: dotAt(vectors, row, wanted) }));
      return likeness
        .filter(({ value }) => value >= leastLikeness)
        .sort((left, right) => right.value - left.value)
        .slice(0, limit)
        .map(({ row }) => row);
    },
  };
}

function dotAt(vectors: Float32Array, row: number, wanted: Float32Array): number {
  const start = row * wanted.length;
  let sum = 0;
  for (let index = 0; index < wanted.length; index += 1) sum += (vectors[start + index] ?? 0) * (wanted[index] ?? 0);
  return sum;
}

/** Rank at which a place in a list is worth half of the first: reciprocal rank fusion with the usual constant. */
const rankOffset = 60;

/** Joins ranked lists into one: what stands high in several comes first. */
export function fuseRanks(lists: readonly (readonly number[])[]): number[] {
  const scores = new Map<number, number>();
  for (const list of lists) {
    for (const [rank, id] of list.entries()) scores.set(id, (scores.get(id) ?? 0) + 1 / (rankOffset + rank + 1));
  }
  return [...scores].sort((left, right) => right[1] - left[1]).map(([id]) => id);
}
