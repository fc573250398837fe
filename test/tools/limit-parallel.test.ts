import { expect, test } from 'vitest';
import { createCallLimit, limitParallel } from '../../src/tools/limit-parallel.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { aSlot } from '../support/slots.ts';
import { executed, inputOf } from './tool-input.ts';

/** A tool whose calls go on until they are told to end; `going` names those that do. */
function slowTool() {
  const going = new Map<string, () => void>();
  const tool: Tool = {
    slot: aSlot({ id: 'answer-1' }),
    bound: () => [],
    async *execute({ problem }) {
      await new Promise<void>((resolve) => {
        going.set(problem, resolve);
      });
      going.delete(problem);
      yield { type: 'text', text: problem };
      return { observation: { kind: 'answer', text: problem }, usage: [] };
    },
  };
  return { tool, names: () => [...going.keys()], end: (name: string) => going.get(name)?.() };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

test('calls beyond the limit wait their turn and then go on as they would have', async () => {
  const { tool, names, end } = slowTool();
  const limited = limitParallel(tool, createCallLimit(2));
  const calls = ['a', 'b', 'c'].map((name) => executed(limited, inputOf(name)));
  await settle();
  expect(names()).toEqual(['a', 'b']);
  end('b');
  await expect.poll(names).toEqual(['a', 'c']);
  for (const name of ['a', 'c']) end(name);
  expect((await Promise.all(calls)).map(({ deltas }) => deltas)).toEqual(
    ['a', 'b', 'c'].map((text) => [{ type: 'text', text }]),
  );
});

test('a call that waits too long is a failure that costs nothing and may be tried again', async () => {
  const { tool, names, end } = slowTool();
  const limited = limitParallel(tool, createCallLimit(1, 20));
  const first = executed(limited, inputOf('first'));
  const { outcome } = await executed(limited, inputOf('second'));
  expect(outcome).toMatchObject({ observation: { kind: 'failed', retryable: true }, usage: [] });
  expect(names()).toEqual(['first']);
  end('first');
  expect((await first).outcome.observation).toEqual({ kind: 'answer', text: 'first' });
});

test('a call whose run is cancelled while it waits leaves the queue and costs nothing', async () => {
  const { tool, names, end } = slowTool();
  const limited = limitParallel(tool, createCallLimit(1));
  const leaving = new AbortController();
  const first = executed(limited, inputOf('first'));
  const second = executed(limited, inputOf('second', { signal: leaving.signal }));
  const third = executed(limited, inputOf('third'));
  leaving.abort();
  expect((await second).outcome).toMatchObject({ observation: { kind: 'failed' }, usage: [] });
  end('first');
  await expect.poll(names).toEqual(['third']);
  end('third');
  await Promise.all([first, third]);
});

test('a call that is abandoned in the middle makes room for the next', async () => {
  const { tool, names, end } = slowTool();
  const limited = limitParallel(tool, createCallLimit(1));
  const first = limited.execute(inputOf('first'));
  const started = first.next();
  await expect.poll(names).toEqual(['first']);
  end('first');
  await started;
  const second = executed(limited, inputOf('second'));
  await settle();
  expect(names()).toEqual([]);
  await first.return({ observation: { kind: 'failed', reason: 'abandoned', retryable: false }, usage: [] });
  await expect.poll(names).toEqual(['second']);
  end('second');
  await second;
});
