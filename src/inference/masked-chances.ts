import { type LlamaModel, type Token, TokenBias } from 'node-llama-cpp';

export type Chances = ReadonlyMap<Token, number>;

/** What the library's sampler is told, so that it gives the chances of a few tokens. */
export interface Mask {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly seed: number;
  readonly tokenBias?: TokenBias;
}

/**
 * Lifts the admissible tokens above all others and leaves single-precision logits five digits; the second, three
 * digits, is for models so sure of something else that the first does not suffice.
 */
export const maskLogits = [100, 10_000];
/** Keeps logarithms finite where a chance is too small for single precision. */
const smallestProbability = 1e-38;

export function maskOf(model: LlamaModel, admissible: readonly Token[], logit: number): Mask {
  const whole = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: 0 };
  // The library biases no end tokens, so they are compared in the whole vocabulary.
  if (admissible.some((token) => model.isEogToken(token))) return whole;
  const tokenBias = TokenBias.for(model);
  for (const token of admissible) tokenBias.set(token, { logit });
  return { ...whole, topK: admissible.length, tokenBias };
}

/** Renormalised over the admissible tokens, in their order; undefined when the mask was too weak for one of them. */
export function chancesOf(admissible: readonly Token[], { topK }: Mask, chances: Chances): number[] | undefined {
  if (topK > 0 && !admissible.every((token) => chances.has(token))) return undefined;
  const weights = admissible.map((token) => Math.max(chances.get(token) ?? 0, smallestProbability));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}
