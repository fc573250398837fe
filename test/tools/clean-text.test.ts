import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cleanText } from '../../src/tools/clean-text.ts';

test('keeps lines, tabs, joiners and every script', () => {
  const text = 'a\tb\nc 数据 हिन्दी می\u200cخواهم \u{1F469}\u200D\u{1F680}';
  expect(cleanText(text, 100)).toBe(text);
});

test('one kind of line end, no edges, nothing unseen', () => {
  expect(cleanText('  a\r\nb\rc\u0000\u0007\u200B\u2066\uFEFF\u{E0041}\u{E0150}\uD800 ', 100)).toBe('a\nb\nc\uFFFD');
});

test('never exceeds its limit and never splits a character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.nat(20), (text, limit) => {
      const clean = cleanText(text, limit);
      expect([...clean].length).toBeLessThanOrEqual(limit);
      expect(clean).not.toMatch(/\p{Surrogate}/u);
    }),
  );
});
