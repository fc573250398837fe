import { expect, test } from 'vitest';
import { BatchCosts } from '../../src/inference/batch-costs.ts';

/** How often, of many rounds, writers go one by one on a machine with these costs. */
function shareOneByOne(msOfBatch: Readonly<Record<number, number>>, writers: number): number {
  const costs = new BatchCosts();
  let oneByOne = 0;
  for (let round = 0; round < 1_000; round++) {
    const isOneByOne = costs.goOneByOne(writers);
    const size = isOneByOne ? 1 : writers;
    for (let batch = 0; batch < writers / size; batch++) costs.record(size, msOfBatch[size] ?? Number.NaN);
    if (isOneByOne) oneByOne++;
  }
  return oneByOne / 1_000;
}

test('writers share a batch where it costs less than its parts', () => {
  expect(shareOneByOne({ 1: 14, 8: 75 }, 8)).toBeLessThan(0.05);
});

test('writers go one by one where a batch costs more than its parts', () => {
  expect(shareOneByOne({ 1: 14, 2: 48 }, 2)).toBeGreaterThan(0.95);
});

test('one writer is no question', () => {
  expect(new BatchCosts().goOneByOne(1)).toBe(false);
});

test('a machine that changes is noticed', () => {
  const costs = new BatchCosts();
  costs.record(1, 14);
  costs.record(4, 100);
  const choices = [];
  for (let round = 0; round < 1_000; round++) {
    const isOneByOne = costs.goOneByOne(4);
    choices.push(isOneByOne);
    costs.record(isOneByOne ? 1 : 4, isOneByOne ? 14 : 20);
  }
  expect(choices[0]).toBe(true);
  expect(choices.slice(-200).filter(Boolean).length).toBeLessThan(10);
});
