import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { bucketsOf } from '../../../src/router/policies/words.ts';

interface Vector {
  readonly name: string;
  readonly input: { readonly text: string; readonly buckets: number };
  readonly expected: readonly number[];
}

const vectors: Vector[] = JSON.parse(readFileSync('test/golden/words.json', 'utf8'));

test.each(vectors)('$name fall into the same buckets as in training', ({ input, expected }) => {
  expect(bucketsOf(input.text, input.buckets)).toEqual(expected);
});

test('a word counts once, however often and in whatever case it stands there', () => {
  expect(bucketsOf('The cat, the CAT', 4096)).toEqual(bucketsOf('the cat ,', 4096).slice(0, 3));
});
