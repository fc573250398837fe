import type { Token } from 'node-llama-cpp';
import type { Chances } from './masked-chances.ts';

/**
 * Chooses as llama.cpp's own sampler does (top-p, then temperature), from chances at temperature 1. The library shows its
 * chances only after both, so whoever wants to know the model's own has to choose by itself.
 */
export function picker({
  temperature,
  topP,
  seed,
}: {
  readonly temperature: number;
  readonly topP: number;
  readonly seed: number;
}): (chances: Chances) => Token {
  const random = randomNumbers(seed);
  return (chances) => {
    const nucleus = likeliest(chances, temperature === 0 ? 0 : topP);
    const best = nucleus[0]?.[1] ?? 1;
    const weights = nucleus.map(([, chance]) => (chance / best) ** (1 / (temperature || 1)));
    const token = nucleus[drawn(weights, random())]?.[0];
    if (token === undefined) throw new Error('there are no tokens to choose from');
    return token;
  };
}

/** @param chance from 0 up to 1 */
function drawn(weights: readonly number[], chance: number): number {
  let rest = chance * weights.reduce((sum, weight) => sum + weight, 0);
  for (const [index, weight] of weights.entries()) {
    rest -= weight;
    if (rest < 0) return index;
  }
  // Rounding alone can leave something.
  return 0;
}

/** As few as have this chance together; at least one. */
function likeliest(chances: Chances, together: number): [Token, number][] {
  const kept: [Token, number][] = [];
  let sum = 0;
  for (const entry of chances) {
    kept.push(entry);
    sum += entry[1];
    if (sum >= together) break;
  }
  return kept;
}

/** The chances before a temperature was applied. */
export function beforeTemperature(chances: Chances, temperature: number): Chances {
  if (temperature === 0 || temperature === 1) return chances;
  const weights = [...chances].map(([token, chance]) => [token, chance ** temperature] as const);
  const total = weights.reduce((sum, [, weight]) => sum + weight, 0);
  return new Map(weights.map(([token, weight]) => [token, weight / total]));
}

/** Mulberry32, a small generator in the public domain: numbers from 0 up to 1, the same for the same seed. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
