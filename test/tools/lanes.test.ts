import { expect, test } from 'vitest';
import { createLanes } from '../../src/tools/lanes.ts';

const never = new AbortController().signal;

/** A task that runs until told to end. */
function task(log: string[], name: string) {
  let end = () => {};
  const done = new Promise<void>((resolve) => {
    end = resolve;
  });
  const run = async () => {
    log.push(name);
    await done;
    return name;
  };
  return { run, end: () => end() };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

test('runs so many tasks at a time, the others in order', async () => {
  const log: string[] = [];
  const lanes = createLanes(2);
  const tasks = ['a', 'b', 'c', 'd'].map((name) => task(log, name));
  const results = tasks.map(({ run }) => lanes.run(never, run));
  await settle();
  expect(log).toEqual(['a', 'b']);
  tasks[1]?.end();
  await settle();
  expect(log).toEqual(['a', 'b', 'c']);
  for (const { end } of tasks) end();
  expect(await Promise.all(results)).toEqual(['a', 'b', 'c', 'd']);
});

test('a task whose signal fires while it waits never runs and takes no lane', async () => {
  const log: string[] = [];
  const lanes = createLanes(1);
  const [first, second, third] = [task(log, 'first'), task(log, 'second'), task(log, 'third')];
  const leaving = new AbortController();
  const running = lanes.run(never, first.run);
  const left = lanes.run(leaving.signal, second.run);
  const last = lanes.run(never, third.run);
  leaving.abort();
  await expect(left).rejects.toMatchObject({ name: 'AbortError' });
  first.end();
  third.end();
  expect(await Promise.all([running, last])).toEqual(['first', 'third']);
  expect(log).toEqual(['first', 'third']);
});

test('a failing task gives its lane back', async () => {
  const lanes = createLanes(1);
  await expect(lanes.run(never, () => Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  expect(await lanes.run(never, async () => 'next')).toBe('next');
});

test('a lane that was entered is free for the next once it is left', async () => {
  const lanes = createLanes(1);
  const leave = await lanes.enter(never);
  const next = task([], 'next');
  const running = lanes.run(never, next.run);
  next.end();
  leave();
  expect(await running).toBe('next');
});
