import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { parseConfig } from '../../src/assembly/load-config.ts';
import { createPriceBook, readPriceRows, toolMeter } from '../../src/assembly/prices.ts';
import { slotsFrom } from '../../src/assembly/slots.ts';
import { lookUp, type PriceRow } from '../../src/cost/catalog.ts';
import { priceCall } from '../../src/cost/price-book.ts';
import { priceOf, ratesFrom } from '../../src/cost/rates.ts';
import { usageOf } from '../../src/cost/usage.ts';

const table = z
  .object({
    upstreams: z.record(z.string(), z.object({ base_url: z.string() })),
    slots: z.array(z.object({ id: z.string(), upstream: z.string(), model: z.string() })),
  })
  .parse(JSON.parse(readFileSync(new URL('../../models/slots.json', import.meta.url), 'utf8')));

const at = (day: string): number => Date.parse(`${day}T12:00:00Z`);
const today = at('2026-11-30');

test('the table of known slots is not empty', () => {
  expect(table.slots.length).toBeGreaterThan(5);
});

test.each(table.slots)('the known slot $id ($upstream/$model) has an exact price', ({ upstream, model }) => {
  const { rates, reason } = lookUp(upstream, table.upstreams[upstream]?.base_url ?? '', model, readPriceRows(), today);
  expect(reason).toBeUndefined();
  expect(rates?.input).toBeGreaterThan(0n);
  expect(rates?.output).toBeGreaterThan(rates?.input ?? 0n);
});

test('a name that only resembles a known one has no price', () => {
  const found = lookUp('openai', 'https://api.openai.com/v1', 'gpt-5.5-turbo-x', [], today);
  expect(found).toMatchObject({ rates: undefined, reason: expect.stringContaining('exact name') });
});

test('a price for each request is one for each call', () => {
  const { rates } = lookUp('perplexity', 'https://api.perplexity.ai', 'sonar', [], today);
  if (!rates) throw new Error('the catalog has no price');
  expect(priceOf(usageOf({ calls: 1 }), rates)).toBe(12_000_000);
});

test('a model whose pictures have a price of their own has none here', () => {
  const url = 'https://generativelanguage.googleapis.com/v1beta/openai';
  const found = lookUp('gemini', url, 'gemini-2.5-flash-image', [], today);
  expect(found).toMatchObject({ rates: undefined, reason: expect.stringContaining('output_image_mtok') });
});

describe('a price that depends on the length of the input', () => {
  const rates = lookUp(
    'gemini',
    'https://generativelanguage.googleapis.com/v1beta/openai',
    'gemini-2.5-pro',
    [],
    today,
  ).rates;

  test.each([
    ['short', 200_000, 1250, 10_000],
    ['long', 200_001, 2500, 15_000],
  ])('is exact for a %s input of %i tokens', (_, inputTokens, nanoIn, nanoOut) => {
    if (!rates) throw new Error('the catalog has no price');
    expect(priceOf(usageOf({ inputTokens, outputTokens: 7 }), rates)).toBe(inputTokens * nanoIn + 7 * nanoOut);
  });

  test('counts cached input towards the length', () => {
    if (!rates) throw new Error('the catalog has no price');
    const short = priceOf(usageOf({ inputTokens: 100_000, cacheReadTokens: 100_000 }), rates);
    const long = priceOf(usageOf({ inputTokens: 100_001, cacheReadTokens: 100_000 }), rates);
    expect(long - short).toBeGreaterThan(100_000 * 1250);
  });
});

describe('our own rows', () => {
  const row = (part: Partial<PriceRow>): PriceRow => ({
    key: 'vllm/qwen',
    unit: 'mtok_in',
    usd: '0.2',
    from: '2026-01-01',
    source: 'a contract',
    ...part,
  });
  const rows = [
    row({ to: '2026-06-01' }),
    row({ usd: '0.3', from: '2026-06-01' }),
    row({ unit: 'mtok_out', usd: '0.5' }),
    row({ key: 'openai/gpt-5.5', usd: '0.000001' }),
  ];
  const ratesAt = (day: string, key = 'vllm/qwen') => {
    const [upstream = '', model = ''] = key.split('/');
    return lookUp(upstream, 'https://api.openai.com/v1', model, rows, at(day)).rates;
  };

  test.each([
    ['before its first day', '2025-12-31', undefined],
    ['on its first day', '2026-01-01', 200_000_000n],
    ['on the last day before the next', '2026-05-31', 200_000_000n],
    ['on the day of the next', '2026-06-01', 300_000_000n],
  ])('%s', (_, day, input) => {
    expect(ratesAt(day)?.input).toBe(input);
  });

  test('win over the catalog', () => {
    expect(ratesAt('2026-07-01', 'openai/gpt-5.5')?.input).toBe(1000n);
    expect(ratesAt('2026-07-01')).toMatchObject({ input: 300_000_000n, output: 500_000_000n });
  });

  test('of the file are well-formed', () => {
    for (const { usd } of readPriceRows()) expect(() => ratesFrom({ input: usd })).not.toThrow();
  });
});

describe('the price book', () => {
  const config = parseConfig(
    {
      upstreams: { cloud: { kind: 'openai', base_url: 'https://api.example.com/v1' } },
      models: { smol: { path: 'smollm2-135m-instruct' } },
      tools: {
        web: { kind: 'tavily', api_key: 'x', price: { per_call: '0.008' } },
        python: { kind: 'sandbox', price: { per_second: '0.0000083' } },
        docs: { kind: 'local_search', folders: ['docs'] },
      },
      slots: {
        'answer-1': { role: 'answer', upstream: 'cloud', model: 'a', quality: 'x', price: { input: '0.1', output: 3 } },
        'answer-2': { role: 'answer', upstream: 'cloud', model: 'b', quality: 'x', price: 'unknown' },
        'answer-3': { role: 'answer', local: 'smol', quality: 'x' },
      },
      policy: { price: { per_second: 0, input: '0.01' } },
    },
    {},
  );
  const book = createPriceBook(config, slotsFrom(config, [], today).slots, () => undefined);
  const price = (meter: string, part: Parameters<typeof usageOf>[0]) =>
    priceCall([{ meter, usage: usageOf(part) }], book);

  test.each([
    ['answer-1', { inputTokens: 10, outputTokens: 3 }, 10 * 100 + 3 * 3000],
    ['answer-3', { inputTokens: 10, outputTokens: 3 }, 0],
    [toolMeter('web'), { calls: 2 }, 16_000_000],
    [toolMeter('python'), { durationMs: 1000 }, 8300],
    [toolMeter('python'), { durationMs: 1 }, 9],
    [toolMeter('docs'), { calls: 1 }, 0],
    ['policy', { inputTokens: 1000 }, 10_000],
  ])('bills %s exactly', (meter, usage, nano) => {
    expect(price(meter, usage)).toMatchObject({ total: nano, known: true });
  });

  test('never counts an unknown price as nothing', () => {
    expect(price('answer-2', { inputTokens: 10 })).toMatchObject({ known: false });
  });

  test('refuses a meter that nobody registered', () => {
    expect(() => price('answer-9', { inputTokens: 1 })).toThrow('no price entry for meter answer-9');
  });
});
