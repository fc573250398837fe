import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  choiceProbabilities,
  expectedUtility,
  type SearchState,
  type UtilityOption,
} from '../../src/contract/expected-utility.ts';
import type { Weights } from '../../src/preferences/weights.ts';
import { type UtilityVector, utilityInputs } from './utility-inputs.ts';

/**
 * Vectors that the Python twin reads too. `UPDATE_GOLDEN=1 npx vitest run test/contract/expected-utility.test.ts` writes
 * them anew: do it only for a deliberate change of the contract, and read the difference.
 */
const file = new URL('../golden/utility.json', import.meta.url);
const scales = { lambda: 2, costUsd: 0.001, latencyMs: 1000 };

/** −∞ has no place in JSON. */
const finite = (value: number) => (Number.isFinite(value) ? Number(value.toPrecision(12)) : null);

function result({ options, state, weights, temperature }: UtilityVector) {
  const outcomes = expectedUtility(options, state, { ...weights, tools: {} }, scales);
  const utilities = outcomes.map(({ utility }) => utility);
  return {
    utilities: utilities.map(finite),
    pRight: outcomes.map(({ pRight }) => finite(pRight)),
    probabilities: choiceProbabilities(utilities, temperature).map(finite),
  };
}

describe('golden vectors of the search', () => {
  if (process.env['UPDATE_GOLDEN']) {
    const vectors = Object.entries(utilityInputs).map(([name, input]) => ({ name, input, expected: result(input) }));
    writeFileSync(file, `${JSON.stringify(vectors, null, 1)}\n`);
  }
  const vectors: { name: string; input: UtilityVector; expected: ReturnType<typeof result> }[] = JSON.parse(
    readFileSync(file, 'utf8'),
  );

  test('cover every input', () => {
    expect(vectors.map(({ name }) => name)).toEqual(Object.keys(utilityInputs));
  });

  test.each(vectors)('$name', ({ input, expected }) => {
    const found = result(input);
    for (const key of ['utilities', 'pRight', 'probabilities'] as const) {
      for (const [index, value] of found[key].entries()) {
        const wanted = expected[key][index] ?? null;
        if (wanted === null || value === null) expect(value).toBe(wanted);
        else expect(value).toBeCloseTo(wanted, 9);
      }
    }
  });
});

const weights = (quality: number, cost = 0, latency = 0): Weights => ({
  quality,
  cost,
  latency,
  privacy: 0,
  tools: {},
});
const price = (id: string, costUsd: number, latencyMs = 1000) => ({
  id,
  costUsd,
  latencyMs,
  privacy: 0,
  selectorWeight: 0,
});
const writers = (id: string, costUsd: number, chances: readonly number[]): UtilityOption[] => [
  { ...price(id, costUsd), kind: 'answer', chances },
  { ...price(id, costUsd), kind: 'attempt', chances },
];
const fresh: SearchState = {
  prior: { levels: [0.5, 0.5], coincidence: 0.15 },
  attempts: [],
  comparable: 1,
  turnsLeft: 8,
  attemptsLeft: 4,
};
const bestOf = (options: readonly UtilityOption[], state: SearchState, wanted: Weights) => {
  const outcomes = expectedUtility(options, state, wanted, scales);
  const top = outcomes.reduce(
    (best, { utility }, index) => (utility > (outcomes[best]?.utility ?? 0) ? index : best),
    0,
  );
  return `${options[top]?.kind} ${options[top]?.id}`;
};

const cheap = writers('answer-1', 0.0002, [0.5, 0.95]);
const alsoCheap = writers('answer-2', 0.0003, [0.45, 0.9]);
const dear = writers('answer-3', 0.008, [0.75, 0.97]);
const all = [...cheap, ...alsoCheap, ...dear];
const deliver = (id: string): UtilityOption => ({ ...price(id, 0, 0), kind: 'deliver' });
const attempt = (number: number, slot: string, chances: readonly number[], agreesWith?: string) => ({
  id: `attempt-${number}`,
  slot,
  chances,
  agreesWith,
  comparable: true,
});

describe('the search', () => {
  test('tries cheap voices first where they can be compared, and answers at once where they cannot', () => {
    expect(bestOf(all, fresh, weights(1, 0.1))).toMatch(/^attempt answer-[12]$/);
    expect(bestOf(all, { ...fresh, comparable: 0 }, weights(1, 0.1))).toMatch(/^answer /);
  });

  test('delivers what two cheap voices agree on, and asks the dear one when they do not', () => {
    const first = attempt(1, 'answer-1', [0.5, 0.95]);
    const agreed = { ...fresh, attempts: [first, attempt(2, 'answer-2', [0.45, 0.9], 'attempt-1')], attemptsLeft: 2 };
    expect(bestOf([...all, deliver('attempt-1')], agreed, weights(1, 0.1))).toBe('deliver attempt-1');
    const split = { ...fresh, attempts: [first, attempt(2, 'answer-2', [0.45, 0.9])], attemptsLeft: 2 };
    const options = [...all, deliver('attempt-1'), deliver('attempt-2')];
    expect(bestOf(options, split, weights(1, 0.1))).toMatch(/answer-3$/);
  });

  test('takes the strongest when only quality counts and voting is impossible, the cheapest when only cost does', () => {
    expect(bestOf(all, { ...fresh, turnsLeft: 1 }, weights(1))).toBe('answer answer-3');
    expect(bestOf(all, fresh, weights(0, 1))).toBe('answer answer-1');
  });

  test('attempts nothing on the last turn', () => {
    const outcomes = expectedUtility(all, { ...fresh, turnsLeft: 1 }, weights(1), scales);
    const attempts = outcomes.filter((_, index) => all[index]?.kind === 'attempt');
    expect(attempts.every(({ utility }) => utility === Number.NEGATIVE_INFINITY)).toBe(true);
  });

  test('prepares when the gain is worth the wait', () => {
    const search = (gain: number): UtilityOption => ({ ...price('search-1', 0, 100), kind: 'prepare', gain });
    expect(bestOf([...dear, search(1.5)], fresh, weights(1))).toBe('prepare search-1');
    expect(bestOf([...dear, search(1)], { ...fresh, comparable: 0 }, weights(1))).toBe('answer answer-3');
  });

  test('never likes an option better for a higher price', () => {
    const utilityAt = (costUsd: number) =>
      expectedUtility([...cheap, ...writers('answer-3', costUsd, [0.75, 0.97])], fresh, weights(1, 0.5), scales)[2]
        ?.utility ?? Number.NaN;
    const prices = [0, 0.001, 0.01, 0.1, 1].map(utilityAt);
    expect(prices).toEqual([...prices].sort((left, right) => right - left));
    expect(new Set(prices).size).toBe(5);
  });
});
