import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createFrameBuffer, dataOf, FrameTooLargeError, readData, splitFrames } from '../../src/upstream/sse.ts';

/** Bytes in pieces that end at the given places. */
function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
  const cuts = [...new Set([0, ...places.map((place) => place % (bytes.length + 1)), bytes.length])];
  cuts.sort((left, right) => left - right);
  return cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
}

async function* stream(pieces: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* pieces;
}

async function dataFrom(pieces: readonly Uint8Array[]): Promise<string[]> {
  const all: string[] = [];
  for await (const together of readData(stream(pieces))) all.push(...together);
  return all;
}

const lineEnd = fc.constantFrom('\n', '\r\n');
const oneLine = fc.string({ unit: 'grapheme' }).map((text) => `x${text.replace(/[\r\n]/g, '')}`);
const dataFrame = fc.tuple(fc.array(oneLine, { minLength: 1, maxLength: 3 }), lineEnd).map(([lines, end]) => ({
  text: `${lines.map((line) => `data: ${line}`).join(end)}${end}${end}`,
  data: lines.join('\n'),
}));
const otherFrame = fc.tuple(fc.constantFrom(': ping', 'id: 7', 'data:', ''), lineEnd).map(([line, end]) => ({
  text: `${line}${end}${end}`,
  data: undefined,
}));
const frames = fc.array(fc.oneof(dataFrame, otherFrame), { maxLength: 12 });

test('any split of the bytes yields the same frames', async () => {
  const places = fc.array(fc.nat(), { maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(frames, places, async (written, cuts) => {
      const bytes = Buffer.from(written.map(({ text }) => text).join(''), 'utf8');
      const expected = written.flatMap(({ data }) => data ?? []);
      expect(await dataFrom(cutAt(bytes, cuts))).toEqual(expected);
      expect(await dataFrom([...bytes].map((byte) => Uint8Array.of(byte)))).toEqual(expected);
    }),
    { numRuns: 300 },
  );
});

test('complete frames add up to the bytes that came in, and end with a blank line each', () => {
  fc.assert(
    fc.property(frames, fc.array(fc.nat(), { maxLength: 30 }), (written, cuts) => {
      const bytes = Buffer.from(written.map(({ text }) => text).join(''), 'utf8');
      const buffer = createFrameBuffer();
      const regions = cutAt(bytes, cuts).map((piece) => Buffer.from(buffer.push(piece)));
      expect(Buffer.concat([...regions, buffer.rest()])).toEqual(bytes);
      for (const region of regions) expect(Buffer.concat(splitFrames(region))).toEqual(region);
      for (const frame of regions.flatMap(splitFrames)) expect(frame.toString('latin1')).toMatch(/(^|\n)\r?\n$/);
    }),
  );
});

test('the last frame may lack its blank line, but not its line end', async () => {
  expect(await dataFrom([Buffer.from('data: a\n\ndata: b\n')])).toEqual(['a', 'b']);
  expect(await dataFrom([Buffer.from('data: a\n\ndata: b')])).toEqual(['a']);
});

test('a byte order mark, missing space and extra space are read as the standard says', () => {
  expect(dataOf(Buffer.from('\uFEFFdata:a\n\n'))).toBe('a');
  expect(dataOf(Buffer.from('data:  a\n\n'))).toBe(' a');
  expect(dataOf(Buffer.from('database: a\n\n'))).toBeUndefined();
});

test('a frame that never ends is refused at the limit', () => {
  const buffer = createFrameBuffer(100);
  buffer.push(Buffer.alloc(60, 'x'));
  expect(() => buffer.push(Buffer.alloc(60, 'x'))).toThrow(FrameTooLargeError);
});
