import fc from 'fast-check';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { readChunk } from '../../src/upstream/openai-chunk.ts';

/** What the reader by hand must come to: the same, said as a schema. */
const optionalText = z.string().optional().catch(undefined);
const toolCallPiece = z.object({
  index: z.int().nonnegative().optional().catch(undefined),
  id: optionalText,
  function: z.object({ name: optionalText, arguments: z.unknown().optional() }).optional().catch(undefined),
});
const delta = z.object({
  content: optionalText,
  reasoning_content: optionalText,
  reasoning: optionalText,
  refusal: optionalText,
  tool_calls: z.array(toolCallPiece).optional().catch(undefined),
});
const choice = z.object({
  index: z.int().catch(0),
  delta: delta.optional().catch(undefined),
  message: delta.optional().catch(undefined),
  finish_reason: optionalText,
});
const chunk = z.object({
  choices: z.array(choice).catch([]),
  usage: z.unknown().optional(),
  error: z.unknown().optional(),
});

/** Mostly right, sometimes any JSON at all, sometimes absent. */
const oddly = (right: fc.Arbitrary<unknown>) =>
  fc.oneof(
    { arbitrary: right, weight: 6 },
    { arbitrary: fc.jsonValue(), weight: 1 },
    { arbitrary: fc.constantFrom(null, [], {}, 0, -1, 1.5, 2 ** 60, '', true), weight: 1 },
  );
const record = (fields: Record<string, fc.Arbitrary<unknown>>) =>
  fc.record(Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, oddly(value)])), {
    requiredKeys: [],
  });
const text = fc.string();
const listOf = (item: fc.Arbitrary<unknown>) => fc.array(oddly(item), { maxLength: 3 });
const called = record({ name: text, arguments: fc.jsonValue() });
const pieces = listOf(record({ index: fc.integer(), id: text, function: called }));
const deltas = record({ content: text, reasoning_content: text, reasoning: text, refusal: text, tool_calls: pieces });
const choices = listOf(record({ index: fc.integer(), delta: deltas, message: deltas, finish_reason: text }));
const chunks = oddly(record({ choices, usage: fc.jsonValue(), error: fc.jsonValue(), id: text }));

test('a chunk is read as its schema reads it, whatever its fields hold', () => {
  fc.assert(
    fc.property(chunks, (wire) => {
      const data = JSON.stringify(wire);
      expect(readChunk(data)).toEqual(chunk.safeParse(JSON.parse(data)).data);
    }),
    { numRuns: 2_000 },
  );
});

test('what is not JSON is no chunk', () => {
  fc.assert(
    fc.property(fc.string(), (data) => {
      fc.pre(!isJson(data));
      expect(readChunk(data)).toBeUndefined();
    }),
  );
});

function isJson(data: string): boolean {
  try {
    JSON.parse(data);
    return true;
  } catch {
    return false;
  }
}
