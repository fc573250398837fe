import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decimalToInteger, floorUsdToNano, formatUsd, nanoUsd, usdToNano } from '../../src/cost/money.ts';
import { ceilingOf, freeRates, priceOf, ratesFrom } from '../../src/cost/rates.ts';
import { usageOf } from '../../src/cost/usage.ts';

describe('money', () => {
  test('reads decimals exactly, as text and as number', () => {
    expect(usdToNano('0.0132')).toBe(13_200_000);
    expect(usdToNano(0.000_000_008)).toBe(8);
    expect(decimalToInteger('0.0000083', 12)).toBe(8_300_000n);
  });

  test.each(['-1', '1e3', '', 'NaN', '1.2.3', '0.0000000001'])('refuses %j as dollars', (text) => {
    expect(() => usdToNano(text)).toThrow(RangeError);
  });

  test('never reads a limit too high', () => {
    expect(floorUsdToNano(0.29)).toBe(290_000_000);
    expect(floorUsdToNano(1.9e-9)).toBe(1);
    expect(floorUsdToNano(1e-12)).toBe(0);
  });

  test('prints what it reads', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }), (amount) => {
        expect(usdToNano(formatUsd(nanoUsd(amount)))).toBe(amount);
      }),
    );
  });

  test('refuses amounts that a number cannot hold exactly', () => {
    expect(() => nanoUsd(2 ** 53)).toThrow(RangeError);
  });
});

describe('price of a call', () => {
  const rates = ratesFrom({ input: 1.25, output: 10, cache_read: '0.125', per_call: 0.008, per_second: '0.0000083' });

  test('sums every unit at its own rate', () => {
    const usage = usageOf({ inputTokens: 1000, cacheReadTokens: 2000, outputTokens: 300, calls: 1, durationMs: 1000 });
    expect(priceOf(usage, rates)).toBe(1_250_000 + 250_000 + 3_000_000 + 8_000_000 + 8_300);
  });

  test('prices reasoning as output and cache writes as input where nothing else is said', () => {
    expect(priceOf(usageOf({ reasoningTokens: 100, cacheWriteTokens: 100 }), rates)).toBe(1_000_000 + 125_000);
  });

  test('prices writes that are kept for an hour at twice the input where nothing else is said, never below other writes', () => {
    const hour = usageOf({ cacheWriteHourTokens: 100 });
    expect(priceOf(hour, rates)).toBe(250_000);
    expect(priceOf(hour, ratesFrom({ input: 1, cache_write: 3 }))).toBe(300_000);
    expect(priceOf(hour, ratesFrom({ input: 1, cache_write_1h: 1.5 }))).toBe(150_000);
  });

  test('never passes its bound, whatever kinds of token the bounded ones turn out to be and however odd the rates', () => {
    const rate = fc.option(fc.integer({ min: 0, max: 90 }), { nil: undefined });
    const odd = fc.record({
      input: rate,
      output: rate,
      cache_read: rate,
      cache_write: rate,
      cache_write_1h: rate,
      reasoning: rate,
    });
    const count = fc.integer({ min: 0, max: 100_000 });
    fc.assert(
      fc.property(odd, count, count, count, count, count, count, (price, plain, read, write, hour, said, thought) => {
        const dear = ratesFrom(price);
        const bill = (part: Parameters<typeof usageOf>[0]) =>
          priceOf(
            usageOf({
              inputTokens: plain,
              cacheReadTokens: read,
              outputTokens: said,
              reasoningTokens: thought,
              ...part,
            }),
            dear,
          );
        const bound = (part: Parameters<typeof usageOf>[0]) =>
          priceOf(usageOf({ outputTokens: said + thought, ...part }), ceilingOf(dear));
        expect(bill({})).toBeLessThanOrEqual(bound({ inputTokens: plain + read }));
        const written = { cacheWriteTokens: write };
        expect(bill(written)).toBeLessThanOrEqual(bound({ cacheWriteTokens: plain + read + write }));
        const kept = { ...written, cacheWriteHourTokens: hour };
        expect(bill(kept)).toBeLessThanOrEqual(bound({ cacheWriteHourTokens: plain + read + write + hour }));
      }),
    );
  });

  test('rounds up once, at the end', () => {
    const tiny = ratesFrom({ input: '0.000001', output: '0.000001' });
    expect(priceOf(usageOf({ inputTokens: 1 }), tiny)).toBe(1);
    expect(priceOf(usageOf({ inputTokens: 500, outputTokens: 500 }), tiny)).toBe(1);
  });

  test('stays exact where floating point would not', () => {
    const dear = ratesFrom({ input: '75.123456789' });
    expect(priceOf(usageOf({ inputTokens: 99_999_999 }), dear)).toBe(
      Number((99_999_999n * 75_123_456_789n + 999_999n) / 1_000_000n),
    );
  });

  test('charges nothing at free rates', () => {
    expect(priceOf(usageOf({ inputTokens: 1e6, durationMs: 1e6, calls: 9 }), freeRates)).toBe(0);
  });
});
