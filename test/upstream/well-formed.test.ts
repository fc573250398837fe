import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createTextJoiner, wellFormedJson } from '../../src/upstream/well-formed.ts';

const anyText = fc.string({ unit: 'binary' });
/** What a UTF-8 encoder makes of a string: unpaired halves become U+FFFD. */
const mended = (text: string) => Buffer.from(text, 'utf8').toString('utf8');

test('JSON text reads back as the same strings, mended', () => {
  const halves = fc
    .array(fc.constantFrom('\ud83d', '\ude00', '🎉', '\\', 'ud83d', '"', 'a'))
    .map((parts) => parts.join(''));
  fc.assert(
    fc.property(fc.oneof(anyText, halves), (text) => {
      expect(JSON.parse(wellFormedJson(JSON.stringify({ [text]: [text] })))).toEqual({
        [mended(text)]: [mended(text)],
      });
    }),
  );
});

test('text in pieces is the same text, and no piece ends in half a pair', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.array(fc.nat(), { maxLength: 8 }), (text, places) => {
      const cuts = [0, ...places.map((place) => place % (text.length + 1)), text.length].sort((a, b) => a - b);
      const joiner = createTextJoiner();
      const pieces = cuts.slice(1).map((end, at) => joiner.push(text.slice(cuts[at], end)));
      for (const piece of pieces) expect(mended(piece)).toBe(piece);
      expect(pieces.join('') + joiner.flush()).toBe(text);
    }),
  );
});

test('half a pair at the very end becomes a replacement character', () => {
  const joiner = createTextJoiner();
  expect([joiner.push('a\ud83d'), joiner.flush(), joiner.flush()]).toEqual(['a', '\ufffd', '']);
});
