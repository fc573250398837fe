import fc from 'fast-check';
import { expect, test } from 'vitest';
import { usageOf } from '../../src/cost/usage.ts';
import { openStores } from './opened.ts';

const dayMs = 86_400_000;
const someCharges = fc.array(
  fc.record({
    keyName: fc.constantFrom('one', 'two'),
    day: fc.integer({ min: 0, max: 3 }),
    meter: fc.constantFrom('answer-1', 'tool:web'),
    // Thirty of them stay below 2 ** 53.
    costNano: fc.integer({ min: 0, max: 2 ** 47 }),
    end: fc.constantFrom('settle', 'release', 'hold'),
  }),
  { maxLength: 30 },
);

const sum = (values: readonly number[]) => values.reduce((total, value) => total + BigInt(value), 0n);

test('days and meters add up to the nano-dollar, for one key alone', () => {
  fc.assert(
    fc.property(someCharges, fc.integer({ min: 0, max: 3 }), (all, sinceDay) => {
      const { charges, spending, close } = openStores();
      for (const { keyName, day, meter, costNano, end } of all) {
        const request = { runId: 'run', keyName, atMs: day * dayMs + 5, amountNano: costNano, keepBackNano: 0 };
        const held = charges.hold({ ...request, scopes: [] });
        if (!held.held || end === 'hold') continue;
        const line = { meter, usage: usageOf({ calls: 1, inputTokens: 3, cacheReadTokens: 2 }), cost: costNano };
        if (end === 'settle') charges.settle(held.chargeId, costNano, JSON.stringify([line]));
        else charges.release(held.chargeId);
      }
      const own = all.filter(({ keyName, day }) => keyName === 'one' && day >= sinceDay);
      const costs = (end: string, day?: number) =>
        sum(own.filter((one) => one.end === end && (day ?? one.day) === one.day).map(({ costNano }) => costNano));
      const days = spending.byDay('one', sinceDay * dayMs);
      expect(sum(days.map(({ spentNano }) => spentNano))).toBe(costs('settle'));
      for (const { dayMs: at, spentNano, heldNano } of days) {
        const day = at / dayMs;
        expect([BigInt(spentNano), BigInt(heldNano)]).toEqual([costs('settle', day), costs('hold', day)]);
      }
      const meters = spending.byMeter('one', sinceDay * dayMs);
      expect(sum(meters.map(({ costNano }) => costNano))).toBe(costs('settle'));
      const settled = own.filter(({ end }) => end === 'settle').length;
      expect(sum(meters.map(({ inputTokens }) => inputTokens))).toBe(BigInt(5 * settled));
      close();
    }),
    { numRuns: 60 },
  );
});

test('a call of unknown price is counted as such, and an abandoned one is told apart', () => {
  const { charges, spending, close } = openStores();
  const request = { runId: 'run', keyName: 'one', atMs: 5, amountNano: 7, keepBackNano: 0, scopes: [] };
  const unpriced = charges.hold(request);
  if (unpriced.held) {
    charges.settle(unpriced.chargeId, 0, JSON.stringify([{ meter: 'answer-1', usage: usageOf({ calls: 1 }) }]));
  }
  charges.hold(request);
  charges.settleAbandoned();
  expect(spending.byMeter('one', 0)).toMatchObject([{ meter: 'answer-1', costNano: 0, callsOfUnknownPrice: 1 }]);
  expect(spending.byDay('one', 0)).toEqual([{ dayMs: 0, spentNano: 7, heldNano: 0, abandonedNano: 7 }]);
  close();
});
