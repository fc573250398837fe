import { expect, test } from 'vitest';
import { loadContract } from '../../src/contract/load.ts';
import { toUsdNumber, zeroUsd } from '../../src/cost/money.ts';
import type { PriceBook } from '../../src/cost/price-book.ts';
import { ratesFrom } from '../../src/cost/rates.ts';
import { abandonedUsage, boundPrice, expectedPrice } from '../../src/router/affordable.ts';
import { createAnswerTool } from '../../src/tools/answer.ts';
import type { Expert } from '../../src/tools/expert.ts';
import { createCallTime } from '../../src/upstream/call-time.ts';
import { aSlot } from '../support/slots.ts';
import { inputOf } from '../tools/tool-input.ts';

const expert: Expert = {
  // biome-ignore lint/correctness/useYield: prices are looked at before anybody is asked.
  async *complete() {
    throw new Error('nobody is asked here');
  },
};
const tool = createAnswerTool({
  slot: aSlot({ id: 'answer-1', typicalOutputTokens: 100 }),
  expert,
  contract: loadContract('slots-1'),
});
const prices: PriceBook = {
  get: () => ({ rates: ratesFrom({ input: 1, output: 1 }), label: 'loopback', kind: 'model' }),
};
const expectedTokens = (problem: string) => toUsdNumber(expectedPrice(tool, inputOf(problem), prices) ?? zeroUsd) * 1e6;

test('a short question is expected to cost what it and a usual answer take, not what a bound allows for', () => {
  const question = 'Which of these is a prime, 91 or 97?'; // 14 tokens of a common tokenizer
  expect(expectedTokens(question)).toBeGreaterThan(100 + 14);
  expect(expectedTokens(question)).toBeLessThan(100 + 14 + 20);
  expect(toUsdNumber(boundPrice(tool, inputOf(question), prices)) * 1e6).toBeGreaterThan(500 + 1024);
});

test('a long prompt is expected to cost a token for four bytes', () => {
  const longer = expectedTokens('word '.repeat(8000)) - expectedTokens('word '.repeat(4000));
  expect(longer).toBeCloseTo(5000, 0);
});

test('time is held until the deadline, expected as the slot usually takes, and booked as far as it was worked', () => {
  const timed: PriceBook = { get: () => ({ rates: ratesFrom({ per_second: 1 }), label: 'rented', kind: 'model' }) };
  const input = inputOf('Hi', { callTime: createCallTime(60_000) });
  expect(toUsdNumber(boundPrice(tool, input, timed))).toBe(60);
  expect(expectedPrice(tool, input, timed)).toBe(tool.slot.latencyMs * 1e6);
  const hurried = inputOf('Hi', { callTime: createCallTime(1) });
  expect(expectedPrice(tool, hurried, timed)).toBe(1e6);
  const booked = [0, 250, 70_000].map((workedMs) => abandonedUsage(tool.bound(input), 0, workedMs)[0]);
  expect(booked.map((line) => line?.usage.durationMs)).toEqual([0, 250, 60_000]);
});

test('a call that was cut off is booked with its pictures in full, since nobody knows better', () => {
  const content = [{ type: 'image_url', image_url: { url: 'https://x.example/y' } }];
  const bound = tool.bound({ ...inputOf('?'), messages: [{ role: 'user', content }] });
  const [booked] = abandonedUsage(bound, 0, 0);
  expect(booked?.usage.cacheWriteTokens).toBeGreaterThanOrEqual(50_000);
  expect(booked?.usage.cacheWriteTokens).toBeLessThan(50_000 + 1_000);
});
