import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { buildTrie, type Probe, scoreTrie } from '../../src/inference/trie.ts';

const endToken = 0;

/** A made-up model: the weight of a token depends on everything before it. */
const weight = (path: readonly number[], token: number): number =>
  1 + Math.abs(Math.sin(path.reduce((sum, id, index) => sum + id * (index + 1), token * 7.3))) * 9;

interface Asked {
  readonly path: readonly number[];
  readonly admissible: readonly number[];
}

function recordingProbe(): { probe: Probe; asked: Asked[]; readings: (readonly number[])[] } {
  const asked: Asked[] = [];
  const readings: (readonly number[])[] = [];
  const probe: Probe = async (path, questions) => {
    readings.push(path);
    return questions.map(({ depth, admissible }) => {
      const before = path.slice(0, depth);
      asked.push({ path: before, admissible });
      const weights = admissible.map((token) => weight(before, token));
      const total = weights.reduce((sum, value) => sum + value, 0);
      return weights.map((value) => value / total);
    });
  };
  return { probe, asked, readings };
}

const score = async (choices: readonly (readonly number[])[]) => {
  const { probe, asked, readings } = recordingProbe();
  return { scores: await scoreTrie(buildTrie(choices, endToken), choices.length, probe), asked, readings };
};

describe('scoreTrie', () => {
  const choice = fc.array(fc.integer({ min: 1, max: 4 }), { maxLength: 6 });
  const choices = fc.uniqueArray(choice, { minLength: 1, maxLength: 12, selector: (ids) => ids.join() });

  test('gives chances that sum to 1 for any choices', async () => {
    await fc.assert(
      fc.asyncProperty(choices, async (ids) => {
        const { scores } = await score(ids);
        expect(scores.map(Math.exp).reduce((sum, value) => sum + value, 0)).toBeCloseTo(1, 12);
      }),
    );
  });

  test('never asks where there is nothing to decide, and never asks twice', async () => {
    await fc.assert(
      fc.asyncProperty(choices, async (ids) => {
        const { asked } = await score(ids);
        expect(asked.every(({ admissible }) => admissible.length > 1)).toBe(true);
        expect(new Set(asked.map(({ path }) => path.join())).size).toBe(asked.length);
        expect(asked.length).toBeLessThan(ids.length);
      }),
    );
  });

  test('multiplies the masked conditionals along a choice', async () => {
    const { scores, asked } = await score([
      [5, 1],
      [5, 2],
      [6, 1],
    ]);
    const first = weight([], 5) / (weight([], 5) + weight([], 6));
    const second = weight([5], 1) / (weight([5], 1) + weight([5], 2));
    expect(scores[0]).toBeCloseTo(Math.log(first * second), 12);
    expect(scores[2]).toBeCloseTo(Math.log(1 - first), 12);
    expect(asked).toEqual([
      { path: [], admissible: [5, 6] },
      { path: [5], admissible: [1, 2] },
    ]);
  });

  test('weighs the end of a choice against the choice that goes on', async () => {
    const { asked } = await score([[5], [5, 7]]);
    expect(asked).toEqual([{ path: [5], admissible: [endToken, 7] }]);
  });

  test('reads a path once for all the questions along it', async () => {
    const { readings } = await score([[5, 6, 7], [5, 6, 8], [5, 9], [4]]);
    expect(readings).toEqual([[5, 6]]);
  });

  test('gives a single choice the chance 1 without asking', async () => {
    expect(await score([[3, 4]])).toEqual({ scores: [0], asked: [], readings: [] });
  });
});

describe('buildTrie', () => {
  test.each([
    { name: 'equal choices', choices: [[1, 2], [3], [1, 2]], message: 'choices 0 and 2' },
    { name: 'a choice that only spells out the end', choices: [[1], [1, endToken]], message: 'choices 0 and 1' },
  ])('refuses $name', ({ choices, message }) => {
    expect(() => buildTrie(choices, endToken)).toThrow(message);
  });
});
