import { expect, test } from 'vitest';
import { cacheMarkIn } from '../../src/upstream/cache-marks.ts';
import { objectsIn } from '../../src/upstream/objects-in.ts';
import { unwrittenIn } from '../../src/upstream/unwritten-input.ts';

const many = 300_000;

test.each([
  ['token ids', Array(many).fill(7)],
  ['objects', Array.from({ length: many }, () => ({}))],
  ['lists in lists', JSON.parse('['.repeat(many) + ']'.repeat(many))],
])('what is to be paid for is found among %s, however many', (_, list) => {
  const picture = { type: 'image_url', image_url: { url: 'x' }, cache_control: { type: 'ephemeral', ttl: '1h' } };
  const body = { prompt: list, messages: [{ content: [picture, picture] }, { content: [{ type: 'file' }] }] };
  expect(cacheMarkIn(body)).toBe('hour');
  expect(unwrittenIn(body)).toMatchObject({ pictures: 2, unsized: 'messages' });
  expect([cacheMarkIn([list]), unwrittenIn({ prompt: list }).pictures]).toEqual(['none', 0]);
});

test.each([null, undefined, 7, 'image_url', [null, ['cache_control']]])('in %j there is nothing', (value) => {
  expect([cacheMarkIn(value), objectsIn(value)]).toEqual(['none', []]);
});
