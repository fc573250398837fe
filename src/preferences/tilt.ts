import type { Weights } from './weights.ts';

/** Scales of the tilt; they are part of the contract. */
export interface TiltScales {
  readonly lambda: number;
  /** Amounts at which the pain of money and of waiting begin to count. */
  readonly costUsd: number;
  readonly latencyMs: number;
}

/** What the tilt looks at, of one candidate. Privacy is 0 (weakest class) to 1 (strongest). */
export interface TiltFacts {
  readonly probability: number;
  readonly costUsd: number;
  readonly latencyMs: number;
  readonly privacy: number;
  readonly selectorWeight: number;
}

/** Below this a policy's opinion would not count at all. */
const leastQuality = 0.1;

/** Dislike of a larger price or a longer wait, on a fixed scale: 0 at nothing, falling ever more slowly. */
const dislike = (amount: number, scale: number): number => -Math.log1p(amount / scale);

/**
 * Weights change the choice within one role (architecture decision 4):
 * `p ∝ exp(w_quality · log π + λ (w_cost u_cost + w_latency u_latency + w_privacy u_privacy) + w_tool)`.
 * With all weight on quality, π comes back unchanged.
 * @returns probabilities that sum to the candidates' own sum of π, in their order.
 */
export function tilt(candidates: readonly TiltFacts[], weights: Weights, scales: TiltScales): number[] {
  const mass = candidates.reduce((sum, { probability }) => sum + probability, 0);
  if (mass === 0) return candidates.map(() => 0);
  const quality = Math.max(leastQuality, weights.quality);
  const scores = candidates.map(
    ({ probability, costUsd, latencyMs, privacy, selectorWeight }) =>
      quality * Math.log(Math.max(probability / mass, Number.MIN_VALUE)) +
      scales.lambda *
        (weights.cost * dislike(costUsd, scales.costUsd) +
          weights.latency * dislike(latencyMs, scales.latencyMs) +
          weights.privacy * privacy) +
      selectorWeight,
  );
  const top = Math.max(...scores);
  const raised = scores.map((score) => Math.exp(score - top));
  const total = raised.reduce((sum, value) => sum + value, 0);
  return raised.map((value) => (mass * value) / total);
}
