import { expect, test } from 'vitest';
import { createToolCallDeltas, type WireToolCallPiece } from '../../src/upstream/tool-call-deltas.ts';

interface Call {
  id: string | undefined;
  name: string | undefined;
  arguments: string;
}

/** The calls that a client would put together, checked for the rules that clients rely on. */
function assemble(pieces: readonly WireToolCallPiece[]): Call[] {
  const deltas = createToolCallDeltas();
  const calls: Call[] = [];
  for (const { index, id, name, argumentsDelta } of pieces.flatMap((piece) => deltas.push(piece))) {
    const call = calls[index];
    if (call === undefined) {
      expect(index).toBe(calls.length);
      expect(id).toMatch(/^[A-Za-z0-9_-]{1,40}$/);
      expect(name).toBeTruthy();
      calls.push({ id, name, arguments: argumentsDelta });
    } else {
      expect([id, name]).toEqual([undefined, undefined]);
      call.arguments += argumentsDelta;
    }
  }
  expect(deltas.any).toBe(calls.length > 0);
  return calls;
}

const piece = (index: number | undefined, id?: string, name?: string, args?: unknown): WireToolCallPiece => ({
  index,
  id,
  function: { name, arguments: args },
});

const oslo = '{"city":"Oslo"}';
const rome = '{"city":"Rome"}';
const both = [
  { id: 'c1', name: 'f', arguments: oslo },
  { id: 'c2', name: 'f', arguments: rome },
];

test.each<[string, WireToolCallPiece[]]>([
  [
    'as OpenAI sends them',
    [
      piece(0, 'c1', 'f', ''),
      piece(0, undefined, undefined, oslo),
      piece(1, 'c2', 'f', ''),
      piece(1, undefined, undefined, rome),
    ],
  ],
  ['all under index 0', [piece(0, 'c1', 'f', oslo), piece(0, 'c2', 'f', rome)]],
  ['without index', [piece(undefined, 'c1', 'f', oslo), piece(undefined, 'c2', 'f', rome)]],
  ['counted from 1', [piece(1, 'c1', 'f', oslo), piece(2, 'c2', 'f', rome)]],
  [
    'interleaved',
    [
      piece(0, 'c1', 'f', '{"city"'),
      piece(1, 'c2', 'f', '{"city"'),
      piece(0, undefined, undefined, ':"Oslo"}'),
      piece(1, undefined, undefined, ':"Rome"}'),
    ],
  ],
  [
    'with id and name in every piece',
    [
      piece(0, 'c1', 'f', '{"city":'),
      piece(0, 'c1', 'f', '"Oslo"}'),
      piece(1, 'c2', 'f', rome),
      piece(1, 'c2', 'f', ''),
    ],
  ],
  [
    'with empty names and ids in later pieces',
    [piece(0, 'c1', 'f', ''), piece(0, '', '', oslo), piece(1, 'c2', 'f', ''), piece(1, '', '', rome)],
  ],
  ['with arguments as objects', [piece(0, 'c1', 'f', { city: 'Oslo' }), piece(1, 'c2', 'f', { city: 'Rome' })]],
  [
    'with the name after the first arguments',
    [piece(0, 'c1', undefined, '{"city"'), piece(0, undefined, 'f', ':"Oslo"}'), piece(1, 'c2', 'f', rome)],
  ],
])('two calls %s are two calls', (_, pieces) => {
  expect(assemble(pieces)).toEqual(both);
});

test('calls without any id get one each', () => {
  const calls = assemble([piece(0, undefined, 'f', oslo), piece(1, undefined, 'g', rome)]);
  expect(calls.map(({ name, arguments: args }) => [name, args])).toEqual([
    ['f', oslo],
    ['g', rome],
  ]);
  expect(new Set(calls.map(({ id }) => id)).size).toBe(2);
});

test('a second complete object under one index is a second call of the same name', () => {
  const calls = assemble([piece(0, 'c1', 'f', oslo), piece(0, undefined, 'f', rome)]);
  expect(calls.map(({ name, arguments: args }) => [name, args])).toEqual([
    ['f', oslo],
    ['f', rome],
  ]);
});

test('a call with an id of its own waits for its own name', () => {
  const pieces = [piece(0, 'c1', 'f', oslo), piece(0, 'c2'), piece(0, 'c2', 'g', rome)];
  expect(assemble(pieces).map(({ id, name }) => [id, name])).toEqual([
    ['c1', 'f'],
    ['c2', 'g'],
  ]);
});

test('braces inside arguments do not split a call', () => {
  const pieces = ['{"text":"}', '{', '}"}'].map((args, at) =>
    piece(0, at === 0 ? 'c1' : undefined, at === 0 ? 'f' : undefined, args),
  );
  expect(assemble(pieces)).toEqual([{ id: 'c1', name: 'f', arguments: '{"text":"}{}"}' }]);
});

test('a call without arguments has an empty object, and one that broke off is known as such', () => {
  const deltas = createToolCallDeltas();
  deltas.push(piece(0, 'c1', 'f', ''));
  expect(deltas.truncated).toBe(false);
  expect(deltas.close()).toEqual([{ type: 'tool_call', index: 0, argumentsDelta: '{}' }]);
  deltas.push(piece(1, 'c2', 'f', '{"city":"Os'));
  expect(deltas.truncated).toBe(true);
});

test('a call that never got a name is no call', () => {
  expect(assemble([piece(0, 'c1', '', oslo)])).toEqual([]);
});
