import { afterEach, expect, test, vi } from 'vitest';
import { createCallTime } from '../../src/upstream/call-time.ts';
import { createOpenAiUpstream } from '../../src/upstream/openai.ts';
import { withRetries } from '../../src/upstream/retry.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { startOpenAiServer } from '../support/loopback/openai-server.ts';

let nowMs = 0;
afterEach(() => {
  vi.restoreAllMocks();
  nowMs = 0;
});

function clockByHand(): void {
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
}

test('counts what lies between start and stop, a millisecond begun as a whole one', () => {
  clockByHand();
  const time = createCallTime(1_000.2);
  expect([time.longestMs, time.ms()]).toEqual([1_001, 0]);
  time.start();
  nowMs = 10.1;
  expect(time.ms()).toBe(11);
  time.stop();
  time.stop();
  nowMs = 500;
  time.start();
  time.start();
  nowMs = 510.1;
  time.stop();
  nowMs = 900;
  expect(time.ms()).toBe(21);
});

test('is never above the longest, however late it is stopped', () => {
  clockByHand();
  const time = createCallTime(100);
  time.start();
  nowMs = 107;
  time.stop();
  expect(time.ms()).toBe(100);
});

test('of a call counts every attempt, and no wait between two', async () => {
  clockByHand();
  const attempts = [replies.serverError(), replies.rateLimited({}), replies.says('hi')];
  const server = await startOpenAiServer(() => {
    nowMs += 100;
    return attempts.shift() ?? replies.silence;
  });
  const sleep = async () => {
    nowMs += 5_000;
  };
  const clock = { now: () => nowMs, random: () => 0.5, sleep };
  const upstream = withRetries(createOpenAiUpstream({ name: 'loopback', baseUrl: server.url, apiKey: '' }), {
    ...{ attempts: 3, baseDelayMs: 10, maxDelayMs: 100, clock },
  });
  const callTime = createCallTime(60_000);
  const request = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }], maxOutputTokens: 9, options: {} };
  const patience = { firstTokenTimeoutMs: 60_000, betweenTokensTimeoutMs: 60_000 };
  const { signal } = new AbortController();
  for await (const _ of upstream.complete(request, { ...patience, callTime, signal }));
  await server.close();
  expect(nowMs).toBe(10_300);
  expect(callTime.ms()).toBe(300);
});
