import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { aStoredRun, openStores } from './opened.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('what a failed flush left is written by itself once the database can be', () => {
  const { database, queue, runs, close } = openStores();
  const saved = () => database.prepare('SELECT id FROM runs').pluck().all();
  runs.save(aStoredRun({ id: 'run_1' }));
  database.pragma('query_only = ON');
  expect(() => queue.flush()).toThrow(/readonly/);
  expect(vi.getTimerCount()).toBe(1);
  vi.advanceTimersByTime(5_000);
  expect(saved()).toEqual([]);
  database.pragma('query_only = OFF');
  vi.advanceTimersByTime(1_000);
  expect(saved()).toEqual(['run_1']);
  expect(vi.getTimerCount()).toBe(0);
  close();
});

test('nothing is written ahead of what a failed flush left', () => {
  const { database, queue, runs, close } = openStores();
  runs.save(aStoredRun({ id: 'run_1' }));
  database.pragma('query_only = ON');
  expect(() => queue.flush()).toThrow(/readonly/);
  database.pragma('query_only = OFF');
  const count = database.prepare<[], number>('SELECT count(*) FROM runs').pluck();
  expect(queue.single(() => count.get())).toBe(1);
  close();
});
