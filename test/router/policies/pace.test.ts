import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { JudgeRequest, JudgeResult } from '../../../src/inference/engine.ts';
import { paced } from '../../../src/router/policies/pace.ts';

const result: JudgeResult = { logProbabilities: [[0]], usage: { promptTokens: 1, cachedTokens: 0, outputTokens: 0 } };

/** Takes so long for each character, as a machine of that speed would. */
function judgeOfPace(msPerCharacter: number) {
  const asked: number[] = [];
  const judge = async ({ questions }: JudgeRequest) => {
    const length = questions.flat().reduce((total, { text }) => total + text.length, 0);
    asked.push(length);
    await sleep(length * msPerCharacter);
    return result;
  };
  return { asked, judge: paced({ judge }).judge };
}

const request = (length: number, deadlineMs?: number): JudgeRequest => ({
  prompt: [],
  questions: [[{ kind: 'text', text: 'x'.repeat(length) }]],
  answers: [],
  deadlineMs,
  signal: new AbortController().signal,
});

test('what would not be done in time is refused at once, what would be is asked', async () => {
  const { asked, judge } = judgeOfPace(0.5);
  await judge(request(100, 60_000));
  await expect(judge(request(10_000, 500))).rejects.toMatchObject({ kind: 'busy' });
  await judge(request(20, 60_000));
  expect(asked).toEqual([100, 20]);
});

test('without a deadline, and before anything was measured, everything is asked', async () => {
  const { asked, judge } = judgeOfPace(0.01);
  await judge(request(1000, 1));
  await judge(request(1000));
  expect(asked).toEqual([1000, 1000]);
});

test('a pace learnt in a bad moment is tried again', async () => {
  let msPerCharacter = 5;
  const asked: number[] = [];
  const { judge } = paced({
    judge: async () => {
      asked.push(msPerCharacter);
      await sleep(10 * msPerCharacter);
      return result;
    },
  });
  await judge(request(10, 60_000));
  msPerCharacter = 0;
  let refusals = 0;
  while (asked.length === 1 && refusals < 100) {
    await judge(request(10, 20)).catch(() => {
      refusals += 1;
    });
  }
  expect(refusals).toBeGreaterThan(0);
  expect(asked).toEqual([5, 0]);
});
