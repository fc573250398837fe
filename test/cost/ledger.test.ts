import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createLedger, type Hold, isRefusal, type Ledger, type OnOverrun } from '../../src/cost/ledger.ts';
import { nanoUsd, zeroUsd } from '../../src/cost/money.ts';
import type { PriceBook } from '../../src/cost/price-book.ts';
import { ratesFrom } from '../../src/cost/rates.ts';
import { type MeteredUsage, usageOf } from '../../src/cost/usage.ts';
import { createChargeStore } from '../../src/store/charges.ts';
import { openDatabase } from '../../src/store/database.ts';
import { createWriteQueue } from '../../src/store/write-queue.ts';

// One token of the meter costs exactly one nano-dollar.
const prices: PriceBook = new Map([
  ['answer-1', { rates: ratesFrom({ input: '0.001' }), label: 'loopback/model', kind: 'model' as const }],
  ['answer-2', { rates: undefined, label: 'loopback/mystery', kind: 'model' as const }],
]);
const tokens = (inputTokens: number): MeteredUsage[] => [{ meter: 'answer-1', usage: usageOf({ inputTokens }) }];

const book: PriceBook = new Map(
  ['meter-0', 'meter-1'].map((meter) => [
    meter,
    { rates: ratesFrom({ input: '0.001', output: '0.001' }), label: meter, kind: 'model' as const },
  ]),
);

function openLedger(priceBook = prices, onOverrun?: OnOverrun) {
  const database = openDatabase(':memory:');
  const store = createChargeStore(database, createWriteQueue(database));
  return { ledger: createLedger(store, priceBook, () => Date.UTC(2026, 10, 30), onOverrun), store };
}

const openBudget = (ledger: Ledger, runId: string, maxCost?: number, maxCostPerDay?: number) =>
  ledger.openBudget({
    runId,
    keyName: 'team',
    maxCost: maxCost === undefined ? undefined : nanoUsd(maxCost),
    maxCostPerDay: maxCostPerDay === undefined ? undefined : nanoUsd(maxCostPerDay),
  });

function mustHold(result: ReturnType<ReturnType<typeof openBudget>['hold']>): Hold {
  if (isRefusal(result)) throw new Error(`refused: ${JSON.stringify(result)}`);
  return result;
}

describe('ledger', () => {
  test('refuses a hold that would pass the request limit and says what is left', () => {
    const budget = openBudget(openLedger().ledger, 'r', 100);
    mustHold(budget.hold(tokens(60), zeroUsd));
    expect(budget.hold(tokens(41), zeroUsd)).toEqual({ scope: 'request', needed: 41, available: 40 });
    mustHold(budget.hold(tokens(40), zeroUsd));
  });

  test('keeps back the price of the answer without holding it', () => {
    const budget = openBudget(openLedger().ledger, 'r', 100);
    expect(isRefusal(budget.hold(tokens(60), nanoUsd(41)))).toBe(true);
    mustHold(budget.hold(tokens(60), nanoUsd(40)));
    mustHold(budget.hold(tokens(40), zeroUsd));
  });

  test('frees what a call did not use, and all of a released hold', () => {
    const budget = openBudget(openLedger().ledger, 'r', 100);
    const first = mustHold(budget.hold(tokens(100), zeroUsd));
    budget.settle(first, tokens(30));
    expect(budget.remaining()).toBe(70);
    budget.release(mustHold(budget.hold(tokens(70), zeroUsd)));
    expect(budget.remaining()).toBe(70);
  });

  test('says which limit is tightest, as money is spent', () => {
    const { ledger } = openLedger();
    expect(openBudget(ledger, 'free').tightest()).toBeUndefined();
    const budget = openBudget(ledger, 'r', 60, 100);
    expect(budget.tightest()).toBe('request');
    mustHold(openBudget(ledger, 'other').hold(tokens(41), zeroUsd));
    expect(budget.tightest()).toBe('key_day');
  });

  test('books an overrun truthfully and reports it', () => {
    const budget = openBudget(openLedger().ledger, 'r', 100);
    const hold = mustHold(budget.hold(tokens(50), zeroUsd));
    expect(budget.settle(hold, tokens(120))).toMatchObject({ overrun: true, total: 120 });
    expect(budget.remaining()).toBe(0);
  });

  test('tells which meters were over their own bound, and only when the whole was', () => {
    const told: string[][] = [];
    const { ledger } = openLedger(book, (meters) => told.push([...meters]));
    const budget = openBudget(ledger, 'r');
    const of = (first: number, second: number) =>
      [first, second].map((inputTokens, at) => ({ meter: `meter-${at}`, usage: usageOf({ inputTokens }) }));
    budget.settle(mustHold(budget.hold(of(50, 50), zeroUsd)), of(60, 40));
    budget.settle(mustHold(budget.hold(of(50, 50), zeroUsd)), of(40, 70));
    expect(told).toEqual([['meter-1']]);
  });

  test('blames nobody for an estimate, nor for pictures and files, whose bound may be one', () => {
    const told: string[][] = [];
    const { ledger } = openLedger(book, (meters) => told.push([...meters]));
    const budget = openBudget(ledger, 'r');
    const of = (inputTokens: number, outputTokens: number, more: Partial<MeteredUsage> = {}) => [
      { meter: 'meter-0', usage: usageOf({ inputTokens, outputTokens }), ...more },
    ];
    const pictures = { unwrittenTokens: 40 };
    const overrun = (bound: MeteredUsage[], billed: MeteredUsage[]) =>
      budget.settle(mustHold(budget.hold(bound, zeroUsd)), billed).overrun;
    expect(overrun(of(50, 5, pictures), of(900, 5))).toBe(true);
    expect(overrun(of(50, 5), of(900, 5, { estimated: true }))).toBe(true);
    expect(told).toEqual([]);
    expect(overrun(of(50, 5, pictures), of(900, 6))).toBe(true);
    expect(told).toEqual([['meter-0']]);
  });

  test('shares the day of a key between its runs', () => {
    const { ledger } = openLedger();
    mustHold(openBudget(ledger, 'a', undefined, 100).hold(tokens(80), zeroUsd));
    expect(openBudget(ledger, 'b', undefined, 100).hold(tokens(30), zeroUsd)).toMatchObject({
      scope: 'key_day',
      available: 20,
    });
  });

  test('never closes a charge twice', () => {
    const budget = openBudget(openLedger().ledger, 'r', 100);
    const hold = mustHold(budget.hold(tokens(10), zeroUsd));
    budget.settle(hold, tokens(10));
    expect(() => budget.settle(hold, tokens(10))).toThrow();
    expect(() => budget.release(hold)).toThrow();
    expect(budget.remaining()).toBe(90);
  });

  test('reports an unknown price as unknown', () => {
    const budget = openBudget(openLedger().ledger, 'r');
    const hold = mustHold(budget.hold([{ meter: 'answer-2', usage: usageOf({ inputTokens: 5 }) }], zeroUsd));
    expect(budget.settle(hold, [{ meter: 'answer-2', usage: usageOf({ inputTokens: 5 }) }])).toMatchObject({
      known: false,
    });
  });

  test('books what a dead process left on hold', () => {
    const { ledger, store } = openLedger();
    mustHold(openBudget(ledger, 'r', 100).hold(tokens(25), zeroUsd));
    expect(ledger.recover()).toBe(1);
    expect(store.totals('run:r')).toEqual({ spentNano: 25, heldNano: 0 });
    expect(ledger.recover()).toBe(0);
  });
});

/** One step of some request: ask for a hold, or close one of the open holds. */
const step = fc.record({
  run: fc.integer({ min: 0, max: 3 }),
  action: fc.constantFrom('hold', 'hold', 'settle', 'release'),
  amount: fc.integer({ min: 0, max: 60 }),
  used: fc.double({ min: 0, max: 1, noNaN: true }),
  keepBack: fc.integer({ min: 0, max: 20 }),
});

test('however holds, settlements and releases interleave, no limit is passed and nothing is lost', () => {
  let steps = 0;
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 80 }), (plan) => {
      const { ledger, store } = openLedger();
      const budgets = [0, 1, 2, 3].map((run) => openBudget(ledger, `r${run}`, 100, 250));
      const open: { run: number; hold: Hold; amount: number }[] = [];
      let billed = 0;
      for (const { run, action, amount, used, keepBack } of plan) {
        steps += 1;
        const budget = budgets[run];
        if (action === 'hold') {
          const result = budget?.hold(tokens(amount), nanoUsd(keepBack));
          if (result && !isRefusal(result)) open.push({ run, hold: result, amount });
        } else {
          const next = open.shift();
          if (!next) continue;
          const consumed = Math.floor(next.amount * used);
          if (action === 'release') budgets[next.run]?.release(next.hold);
          else {
            budgets[next.run]?.settle(next.hold, tokens(consumed));
            billed += consumed;
          }
        }
        const day = store.totals('day:2026-11-30:team');
        expect(day.spentNano + day.heldNano).toBeLessThanOrEqual(250);
        for (const id of [0, 1, 2, 3]) {
          const account = store.totals(`run:r${id}`);
          expect(account.spentNano + account.heldNano).toBeLessThanOrEqual(100);
        }
      }
      const day = store.totals('day:2026-11-30:team');
      expect(day.spentNano).toBe(billed);
      expect(day.heldNano).toBe(open.reduce((sum, { amount }) => sum + amount, 0));
    }),
    { numRuns: 150 },
  );
  expect(steps).toBeGreaterThan(1000);
});
