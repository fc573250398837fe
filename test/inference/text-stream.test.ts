import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { stopFilter, tokenDecoder } from '../../src/inference/text-stream.ts';

/** Byte tokens: a token is a byte, as the hardest tokenizer would have it. */
const decodeBytes = (tokens: readonly number[]) => Buffer.from(tokens).toString('utf8');

describe('tokenDecoder', () => {
  test('never gives out half a character, and loses none', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const decoder = tokenDecoder(decodeBytes);
        const pieces = [...Buffer.from(text, 'utf8')].map((byte) => decoder.push(byte));
        expect(pieces.join('') + decoder.flush()).toBe(text);
        expect(pieces.some((piece) => /\p{Surrogate}/u.test(piece))).toBe(false);
        if (!text.includes('\uFFFD')) expect(pieces.join('')).not.toContain('\uFFFD');
      }),
    );
  });

  test('marks a character that never became complete', () => {
    const decoder = tokenDecoder(decodeBytes);
    expect(decoder.push(0xf0) + decoder.push(0x9f)).toBe('');
    expect(decoder.flush()).toBe('\uFFFD');
    expect(decoder.flush()).toBe('');
  });

  test('does not wait for ever on bytes that are no character', () => {
    const decoder = tokenDecoder(decodeBytes);
    const text = [0xff, 0xff, 0xff, 0xff, 0x61].map((byte) => decoder.push(byte)).join('');
    expect(text).toBe('\uFFFD\uFFFD\uFFFD\uFFFDa');
  });

  test('tells the detokenizer which tokens came before', () => {
    const seen: (readonly number[])[] = [];
    const decoder = tokenDecoder<number>((tokens, before) => {
      seen.push([...before]);
      return decodeBytes(tokens);
    });
    for (const byte of [0x61, 0xc3, 0xa4, 0x62]) decoder.push(byte);
    expect(seen).toEqual([[], [0x61], [0x61], [0xc3, 0xa4]]);
  });
});

describe('stopFilter', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '😀'), maxLength: 24 });
  const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '😀'), minLength: 1, maxLength: 3 }), {
    maxLength: 3,
  });

  test('lets through exactly what stands before the first stop string, however the text is cut', () => {
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 8 }), stops, (pieces, wanted) => {
        const text = pieces.join('');
        const filter = stopFilter(wanted);
        let sent = '';
        let stopped = false;
        for (const piece of pieces) {
          const result = filter.push(piece);
          sent += result.text;
          stopped = result.stopped;
          if (stopped) break;
        }
        if (!stopped) sent += filter.flush();
        expect(stopped).toBe(wanted.some((stop) => text.includes(stop)));
        expect(text.startsWith(sent)).toBe(true);
        expect(wanted.some((stop) => sent.includes(stop))).toBe(false);
        if (stopped) expect(wanted.some((stop) => text.slice(sent.length).startsWith(stop))).toBe(true);
        else expect(sent).toBe(text);
      }),
    );
  });

  test('holds back no more than the beginning of a stop string', () => {
    const filter = stopFilter(['END']);
    expect(filter.push('text E')).toEqual({ text: 'text ', stopped: false });
    expect(filter.push('N')).toEqual({ text: '', stopped: false });
    expect(filter.push('T')).toEqual({ text: 'ENT', stopped: false });
    expect(filter.push('END more')).toEqual({ text: '', stopped: true });
  });
});
