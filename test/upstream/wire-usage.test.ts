import fc from 'fast-check';
import { expect, test } from 'vitest';
import { usageOf } from '../../src/cost/usage.ts';
import { usageFromAnthropic, usageFromResponses, usageFromWire } from '../../src/upstream/wire-usage.ts';

test.each([
  ['plain counts', { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 }, { inputTokens: 10, outputTokens: 4 }],
  ['embeddings', { prompt_tokens: 6, total_tokens: 6 }, { inputTokens: 6 }],
  [
    'cached and written input inside the prompt',
    {
      prompt_tokens: 100,
      completion_tokens: 5,
      prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 30 },
    },
    { inputTokens: 10, cacheReadTokens: 60, cacheWriteTokens: 30, outputTokens: 5 },
  ],
  [
    'cache hits under another name',
    { prompt_tokens: 100, completion_tokens: 5, prompt_cache_hit_tokens: 60 },
    { inputTokens: 40, cacheReadTokens: 60, outputTokens: 5 },
  ],
  [
    'reasoning inside the completion',
    { prompt_tokens: 1, completion_tokens: 50, total_tokens: 51, completion_tokens_details: { reasoning_tokens: 40 } },
    { inputTokens: 1, outputTokens: 10, reasoningTokens: 40 },
  ],
  [
    'reasoning beside the completion',
    { prompt_tokens: 1, completion_tokens: 50, total_tokens: 91, completion_tokens_details: { reasoning_tokens: 40 } },
    { inputTokens: 1, outputTokens: 50, reasoningTokens: 40 },
  ],
  [
    'reasoning that only the total knows of',
    { prompt_tokens: 1, completion_tokens: 50, total_tokens: 81 },
    { inputTokens: 1, outputTokens: 50, reasoningTokens: 30 },
  ],
  [
    'more reasoning than completion',
    { prompt_tokens: 1, completion_tokens: 5, completion_tokens_details: { reasoning_tokens: 40 } },
    { inputTokens: 1, outputTokens: 5, reasoningTokens: 40 },
  ],
  [
    'nonsense',
    { prompt_tokens: -5, completion_tokens: 2.2, prompt_tokens_details: 'none', completion_tokens_details: null },
    { outputTokens: 3 },
  ],
  [
    'more cached than there was',
    { prompt_tokens: 10, completion_tokens: 0, prompt_tokens_details: { cached_tokens: 99 } },
    { cacheReadTokens: 10 },
  ],
])('%s become disjoint', (_, wire, expected) => {
  expect(usageFromWire(wire)).toEqual(usageOf({ calls: 1, ...expected }));
});

test.each([undefined, null, {}, [], 'usage', { total_tokens: 9 }, { prompt_tokens: '9' }])('%j is no usage', (wire) => {
  expect(usageFromWire(wire)).toBeUndefined();
});

test('whatever an upstream reports, the counts are whole, not negative, and cover what was claimed', () => {
  const number = fc.oneof(fc.integer({ min: -10, max: 1_000 }), fc.double(), fc.constant(undefined));
  const wire = fc.record({
    prompt_tokens: fc.integer({ min: 0, max: 1_000 }),
    completion_tokens: fc.integer({ min: 0, max: 1_000 }),
    total_tokens: number,
    prompt_tokens_details: fc.record({ cached_tokens: number, cache_write_tokens: number }),
    completion_tokens_details: fc.record({ reasoning_tokens: number }),
  });
  fc.assert(
    fc.property(wire, (reported) => {
      const usage = usageFromWire(reported) ?? usageOf({});
      for (const count of Object.values(usage)) expect(Number.isSafeInteger(count) && count >= 0).toBe(true);
      expect(usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens).toBe(reported.prompt_tokens);
      expect(usage.outputTokens + usage.reasoningTokens).toBeGreaterThanOrEqual(reported.completion_tokens);
    }),
  );
});

const tokens = fc.nat({ max: 10_000_000 });

test('the Responses API loses no token and counts none twice', () => {
  fc.assert(
    fc.property(tokens, tokens, tokens, tokens, (fresh, cached, spoken, thought) => {
      const usage = usageFromResponses({
        input_tokens: fresh + cached,
        output_tokens: spoken + thought,
        total_tokens: fresh + cached + spoken + thought,
        input_tokens_details: { cached_tokens: cached },
        output_tokens_details: { reasoning_tokens: thought },
      });
      expect(usage).toEqual(
        usageOf({
          inputTokens: fresh,
          cacheReadTokens: cached,
          outputTokens: spoken,
          reasoningTokens: thought,
          calls: 1,
        }),
      );
    }),
  );
});

test('Anthropic loses no token and counts none twice, however its totals grow', () => {
  fc.assert(
    fc.property(tokens, tokens, tokens, fc.array(tokens, { minLength: 1 }), (fresh, read, written, growth) => {
      const totals = growth.sort((a, b) => a - b).map((output_tokens) => ({ output_tokens }));
      const start = { input_tokens: fresh, cache_read_input_tokens: read, cache_creation_input_tokens: written };
      expect(usageFromAnthropic([start, ...totals])).toEqual(
        usageOf({
          inputTokens: fresh,
          cacheReadTokens: read,
          cacheWriteTokens: written,
          outputTokens: growth.at(-1) ?? 0,
          calls: 1,
        }),
      );
    }),
  );
});

test.each([
  ['usual', {}, { cacheWriteTokens: 50 }],
  ['hour', {}, { cacheWriteHourTokens: 50 }],
  [
    'hour',
    { ephemeral_5m_input_tokens: 40, ephemeral_1h_input_tokens: 10 },
    { cacheWriteTokens: 40, cacheWriteHourTokens: 10 },
  ],
  ['hour', { ephemeral_5m_input_tokens: 40 }, { cacheWriteTokens: 40, cacheWriteHourTokens: 10 }],
] as const)(
  'writes of an Anthropic request with the mark %s and lifetimes %j are no cheaper than asked for',
  (mark, cache_creation, writes) => {
    const report = { input_tokens: 3, cache_creation_input_tokens: 50, cache_creation };
    expect(usageFromAnthropic([report], mark)).toEqual(usageOf({ inputTokens: 3, calls: 1, ...writes }));
  },
);

test.each([[[]], [[undefined, null, 'usage']], [[{ input_tokens: '9' }]]])('%j is no usage', (reports) => {
  expect(usageFromAnthropic(reports)).toBeUndefined();
});
