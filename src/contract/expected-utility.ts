import type { TiltScales } from '../preferences/tilt.ts';
import type { Weights } from '../preferences/weights.ts';

/** One admissible choice as the search sees it: money, time and chances only, no texts. */
export interface UtilityOption {
  readonly id: string;
  /** `prepare` gathers evidence (search, calculation) and must be followed by an answer. */
  readonly kind: 'answer' | 'prepare';
  readonly costUsd: number;
  readonly latencyMs: number;
  /** 0 (weakest class) to 1 (strongest). */
  readonly privacy: number;
  /** Sum of the caller's extra liking for selectors that match it. */
  readonly selectorWeight: number;
}

/** Where the chances come from: `estimate` reads cards, a trained policy reads problems. */
export interface Beliefs {
  /** Chance that this answer option is right if taken now. */
  readonly now: (answerId: string) => number;
  /** The same after that preparation was done first. */
  readonly after: (answerId: string, prepareId: string) => number;
}

export interface UtilityOfOption {
  /** Of the best path that begins with this option. */
  readonly utility: number;
  readonly pRight: number;
}

/** A certain right answer is worth as much as this many natural-log units of price at full cost weight. */
const qualityScale = 8;

const dislike = (amount: number, scale: number): number => -Math.log1p(amount / scale);

/**
 * Expected-utility search of depth two (architecture decision 13): each answer stands for itself, each preparation
 * for the best answer that can follow it, with both prices and both waits on the path.
 * @param answersLater whether a turn is left for the answer after a preparation.
 * @returns one entry an option, in order; a preparation that nothing can follow gets utility −∞.
 */
export function expectedUtility(
  options: readonly UtilityOption[],
  beliefs: Beliefs,
  weights: Weights,
  scales: TiltScales,
  answersLater: boolean,
): UtilityOfOption[] {
  const utilityOf = (pRight: number, path: readonly UtilityOption[]): UtilityOfOption => {
    const sum = (value: (option: UtilityOption) => number) => path.reduce((total, option) => total + value(option), 0);
    const privacy = Math.min(...path.map((option) => option.privacy));
    const utility =
      qualityScale * weights.quality * pRight +
      scales.lambda *
        (weights.cost *
          dislike(
            sum(({ costUsd }) => costUsd),
            scales.costUsd,
          ) +
          weights.latency *
            dislike(
              sum(({ latencyMs }) => latencyMs),
              scales.latencyMs,
            ) +
          weights.privacy * privacy) +
      sum(({ selectorWeight }) => selectorWeight);
    return { utility, pRight };
  };
  const answers = options.filter(({ kind }) => kind === 'answer');
  const none: UtilityOfOption = { utility: Number.NEGATIVE_INFINITY, pRight: 0 };
  return options.map((option) => {
    if (option.kind === 'answer') return utilityOf(beliefs.now(option.id), [option]);
    if (!answersLater) return none;
    return answers
      .map((answer) => utilityOf(beliefs.after(answer.id, option.id), [option, answer]))
      .reduce((best, next) => (next.utility > best.utility ? next : best), none);
  });
}

/** Softmax over utilities: the policy's probabilities, and where training's gradient enters. */
export function choiceProbabilities(utilities: readonly number[], temperature: number): number[] {
  const top = Math.max(...utilities);
  const raised = utilities.map((utility) => Math.exp((utility - top) / temperature));
  const total = raised.reduce((sum, value) => sum + value, 0);
  return raised.map((value) => value / total);
}
