import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chunkText } from '../../../src/tools/local-search/chunk.ts';

const size = { codePoints: 60, overlapCodePoints: 20 };

test('a chunk carries the headings above it and the line where it starts', () => {
  const text = '# Guide\n\nWelcome.\n\n## Install\nRun it.\n### Linux\nFine.\n## Use ##\nJust so.\n';
  expect(chunkText(text)).toEqual([
    { headings: ['Guide'], line: 3, text: 'Welcome.' },
    { headings: ['Guide', 'Install'], line: 6, text: 'Run it.' },
    { headings: ['Guide', 'Install', 'Linux'], line: 8, text: 'Fine.' },
    { headings: ['Guide', 'Use'], line: 10, text: 'Just so.' },
  ]);
});

test('a comment in a code block is no heading', () => {
  const text = '# Guide\n```sh\n# not a heading\nls\n```\n# Next\nend';
  expect(chunkText(text).map(({ headings }) => headings)).toEqual([['Guide'], ['Next']]);
});

test('neighbouring chunks share the words on their border', () => {
  const text = 'one two three four five six seven\neight nine ten eleven twelve thirteen\nfourteen';
  expect(chunkText(text, size).map((chunk) => [chunk.line, chunk.text])).toEqual([
    [1, 'one two three four five six seven'],
    [2, 'four five six seven\neight nine ten eleven twelve thirteen'],
    [3, 'twelve thirteen\nfourteen'],
  ]);
});

test('empty text has no chunks', () => {
  expect([chunkText(''), chunkText('\n \n\n'), chunkText('# Only a heading')]).toEqual([[], [], []]);
});

test('no chunk is too long, and no word is lost', () => {
  const word = fc.string({ unit: fc.constantFrom('a', 'ß', '数', '😀'), minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(fc.array(fc.tuple(word, fc.constantFrom(' ', '\n', '\r\n'))), (parts) => {
      const text = parts.flat().join('');
      const chunks = chunkText(text, size);
      for (const chunk of chunks) expect([...chunk.text].length).toBeLessThanOrEqual(size.codePoints);
      const all = chunks.map((chunk) => chunk.text).join('\n');
      for (const [single] of parts.filter(([, end]) => end !== ' ')) expect(all.replace(/\n/g, '')).toContain(single);
    }),
  );
});
