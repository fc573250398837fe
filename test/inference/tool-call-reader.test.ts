import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ToolCallReader } from '../../src/inference/tool-call-reader.ts';

/** What becomes of a text that comes in these pieces. */
function read(pieces: readonly string[], inCall = false) {
  const reader = new ToolCallReader(inCall);
  const all = [...pieces.flatMap((piece) => reader.push(piece)), ...reader.flush()];
  const calls: { name: string; arguments: string }[] = [];
  let text = '';
  for (const each of all) {
    if (each.type === 'text') text += each.text;
    else {
      const call = calls[each.index] ?? { name: each.name ?? '', arguments: '' };
      calls[each.index] = { ...call, arguments: call.arguments + each.argumentsDelta };
    }
  }
  return { text, calls, finished: reader.calls };
}

const call = (name: string, json: string) => `<tool_call>\n{"name": "${name}", "arguments": ${json}}\n</tool_call>`;

const cases: readonly [string, string, ReturnType<typeof read>][] = [
  ['text alone', 'a < b, <tool_cal> \n', { text: 'a < b, <tool_cal> \n', calls: [], finished: 0 }],
  ['a call alone', call('f', '{}'), { text: '', calls: [{ name: 'f', arguments: '{}' }], finished: 1 }],
  [
    'text, two calls and text',
    `so:\n${call('f', '{"a": "}</tool_call"}')}\n${call('g', '{"b": [{}, "\\""]}')}\n\nthat is all`,
    {
      text: 'so:\n\nthat is all',
      calls: [
        { name: 'f', arguments: '{"a": "}</tool_call"}' },
        { name: 'g', arguments: '{"b": [{}, "\\""]}' },
      ],
      finished: 2,
    },
  ],
  [
    'a call that is none',
    'x <tool_call>weather, please</tool_call>',
    { text: 'x<tool_call>weather, please</tool_call>', calls: [], finished: 0 },
  ],
  [
    'a call that breaks off early',
    '<tool_call>{"name": "f"',
    { text: '<tool_call>{"name": "f"', calls: [], finished: 0 },
  ],
  [
    'a call that breaks off late',
    '<tool_call>{"name": "f", "arguments": {"a": "b',
    { text: '', calls: [{ name: 'f', arguments: '{"a": "b' }], finished: 0 },
  ],
];

describe('calls in a text', () => {
  test.each(cases)('are found: %s', (_, text, expected) => {
    expect(read([text])).toEqual(expected);
  });

  test.each(cases)('are found however the text is cut: %s', (_, text, expected) => {
    const cuts = fc.uniqueArray(fc.integer({ min: 1, max: Math.max(1, text.length - 1) }));
    fc.assert(
      fc.property(cuts, (at) => {
        const ends = [...at.sort((one, other) => one - other), text.length];
        const pieces = ends.map((end, index) => text.slice(ends[index - 1] ?? 0, end));
        expect(read(pieces)).toEqual(expected);
      }),
    );
  });

  test('are found where the first tag was written for the model', () => {
    expect(read([call('f', '{}').slice('<tool_call>'.length)], true).calls).toEqual([{ name: 'f', arguments: '{}' }]);
  });
});
