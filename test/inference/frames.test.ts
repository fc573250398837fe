import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeFrame, FrameError, frameDecoder, largestFrameBytes } from '../../src/inference/frames.ts';

test('frames survive any cutting of the byte stream', () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue(), { maxLength: 5 }), fc.array(fc.nat(40), { maxLength: 30 }), (values, cuts) => {
      const bytes = Buffer.concat(values.map(encodeFrame));
      const decode = frameDecoder();
      const received: unknown[] = [];
      let start = 0;
      for (const length of cuts) {
        received.push(...decode(bytes.subarray(start, start + length)));
        start += length;
      }
      received.push(...decode(bytes.subarray(start)));
      expect(received).toEqual(JSON.parse(JSON.stringify(values)));
    }),
  );
});

test('text that is no valid Unicode passes unchanged', () => {
  expect(frameDecoder()(encodeFrame('lone \ud83d half'))).toEqual(['lone \ud83d half']);
});

test('a frame that claims too many bytes is refused before they are collected', () => {
  const prefix = Buffer.alloc(4);
  prefix.writeUInt32BE(largestFrameBytes + 1);
  expect(() => frameDecoder()(prefix)).toThrow(FrameError);
});

test('a frame that is not JSON is refused', () => {
  const frame = encodeFrame('x');
  frame[4] = 0xff;
  expect(() => frameDecoder()(frame)).toThrow(FrameError);
});

test('a value too large for a frame is refused', () => {
  expect(() => encodeFrame('x'.repeat(largestFrameBytes))).toThrow(FrameError);
});
