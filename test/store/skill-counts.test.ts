import { expect, test } from 'vitest';
import { openDatabase } from '../../src/store/database.ts';
import { createSkillCountStore } from '../../src/store/skill-counts.ts';

test('feedback adds up by model and domain, in fractions', () => {
  const database = openDatabase(':memory:');
  const counts = createSkillCountStore(database);
  counts.add(
    'openai/a',
    new Map([
      ['math', 0.75],
      ['', 0.25],
    ]),
    1,
  );
  counts.add('openai/a', new Map([['math', 1]]), 0.5);
  expect(counts.find('openai/a', 'math')).toEqual({ right: 1.25, wrong: 0.5 });
  expect(counts.find('openai/a', '')).toEqual({ right: 0.25, wrong: 0 });
  expect(counts.find('openai/b', 'math')).toBeUndefined();
  database.close();
});

test('a judgement outside 0 to 1 is refused and leaves nothing behind', () => {
  const database = openDatabase(':memory:');
  const counts = createSkillCountStore(database);
  expect(() =>
    counts.add(
      'openai/a',
      new Map([
        ['math', 1],
        ['code', 1],
      ]),
      1.5,
    ),
  ).toThrow(RangeError);
  expect(counts.find('openai/a', 'math')).toBeUndefined();
  database.close();
});
