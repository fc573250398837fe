import { expect, test } from 'vitest';
import { BatchCosts } from '../../src/inference/batch-costs.ts';

type MsOfBatch = Readonly<Record<number, number>>;

/** A machine whose clock stands still but for batches; plays rounds and says which went one by one. */
function machine() {
  let nowMs = 0;
  const costs = new BatchCosts(() => nowMs);
  return async (msOfBatch: MsOfBatch, writers: number, rounds: number): Promise<boolean[]> => {
    const choices: boolean[] = [];
    for (let round = 0; round < rounds; round++) {
      const isOneByOne = costs.goOneByOne(writers);
      choices.push(isOneByOne);
      const size = isOneByOne ? 1 : writers;
      const run = async () => {
        nowMs += msOfBatch[size] ?? Number.NaN;
      };
      for (let batch = 0; batch < writers / size; batch++) await costs.measure(size, run);
    }
    return choices;
  };
}

const shareOneByOne = async (msOfBatch: MsOfBatch, writers: number): Promise<number> => {
  const choices = await machine()(msOfBatch, writers, 1_000);
  return choices.filter(Boolean).length / choices.length;
};

test('writers share a batch where it costs less than its parts', async () => {
  expect(await shareOneByOne({ 1: 14, 8: 75 }, 8)).toBeLessThan(0.05);
});

test('writers go one by one where a batch costs more than its parts', async () => {
  expect(await shareOneByOne({ 1: 14, 2: 48 }, 2)).toBeGreaterThan(0.95);
});

test.each([8, 14, 70])('trying the other way costs next to nothing, with %i ms for one against 7', async (apartMs) => {
  const share = await shareOneByOne({ 1: apartMs, 16: 112 }, 16);
  expect(share * ((apartMs * 16) / 112 - 1)).toBeLessThan(0.02);
});

test('one writer is no question', () => {
  expect(new BatchCosts().goOneByOne(1)).toBe(false);
});

test('a machine that changes is noticed', async () => {
  const play = machine();
  const before = await play({ 1: 14, 4: 100 }, 4, 100);
  const after = await play({ 1: 14, 4: 20 }, 4, 1_000);
  expect(before.filter(Boolean).length).toBeGreaterThan(95);
  expect(after.slice(-200).filter(Boolean).length).toBeLessThan(10);
});
