import { expect, test } from 'vitest';
import { createBreaker, withBreaker } from '../../src/upstream/breaker.ts';
import { type ChatEvent, type ChatUpstream, type FailureKind, UpstreamFailure } from '../../src/upstream/chat.ts';

function setUp() {
  const time = { nowMs: 0 };
  const rests = { failuresToOpen: 2, firstRestMs: 300, longestRestMs: 1_000 };
  return { time, breaker: createBreaker({ ...rests, now: () => time.nowMs }) };
}

test('opens after failures in a row, not after scattered ones', () => {
  const { breaker } = setUp();
  for (const outcome of ['failure', 'success', 'failure'] as const) breaker.begin()(outcome);
  expect(breaker.state()).toBe('closed');
  breaker.begin()('neutral');
  breaker.begin()('failure');
  expect(breaker.state()).toBe('open');
});

test('refuses while open and says for how long', () => {
  const { breaker, time } = setUp();
  breaker.trip();
  time.nowMs = 400;
  expect(() => breaker.begin()).toThrow(expect.objectContaining({ kind: 'connection', retryAfterMs: 600 }));
});

test('lets one trial through after the rest, and closes when it succeeds', () => {
  const { breaker, time } = setUp();
  breaker.trip();
  time.nowMs = 1_000;
  expect(breaker.state()).toBe('half_open');
  const report = breaker.begin();
  expect(() => breaker.begin()).toThrow(UpstreamFailure);
  report('success');
  expect(breaker.state()).toBe('closed');
});

test('opens again when the trial fails, and offers another trial when it says nothing', () => {
  const { breaker, time } = setUp();
  breaker.trip();
  time.nowMs = 1_000;
  breaker.begin()('neutral');
  expect(breaker.state()).toBe('half_open');
  breaker.begin()('failure');
  expect(breaker.state()).toBe('open');
  time.nowMs = 1_999;
  expect(breaker.state()).toBe('open');
});

test('is tried soon, and ever later while it goes on failing', () => {
  const { breaker, time } = setUp();
  for (const _ of [1, 2]) breaker.begin()('failure');
  for (const restMs of [300, 600, 1_000, 1_000]) {
    expect(() => breaker.begin()).toThrow(expect.objectContaining({ retryAfterMs: restMs }));
    time.nowMs += restMs;
    breaker.begin()('failure');
  }
  time.nowMs += 1_000;
  breaker.begin()('success');
  for (const _ of [1, 2]) breaker.begin()('failure');
  expect(() => breaker.begin()).toThrow(expect.objectContaining({ retryAfterMs: 300 }));
});

test('gives a trial up that never reports', () => {
  const { breaker, time } = setUp();
  breaker.trip();
  time.nowMs = 1_000;
  breaker.begin();
  time.nowMs = 1_999;
  expect(() => breaker.begin()).toThrow(UpstreamFailure);
  time.nowMs = 2_000;
  breaker.begin()('success');
  expect(breaker.state()).toBe('closed');
});

test('does not believe a straggler that began before it opened', () => {
  const { breaker } = setUp();
  const straggler = breaker.begin();
  breaker.trip();
  straggler('success');
  expect(breaker.state()).toBe('open');
});

function upstreamThat(...outcomes: (FailureKind | 'ok' | 'left')[]): ChatUpstream {
  const left = [...outcomes];
  return {
    name: 'scripted',
    async *complete(): AsyncGenerator<ChatEvent, void> {
      const outcome = left.shift() ?? 'ok';
      if (outcome === 'left') throw new DOMException('left', 'AbortError');
      if (outcome !== 'ok') throw new UpstreamFailure(outcome, outcome);
      yield { type: 'end', finishReason: 'stop', usage: undefined };
    },
  };
}

const call = async (upstream: ChatUpstream): Promise<void> => {
  const limits = { signal: new AbortController().signal, firstTokenTimeoutMs: 1, betweenTokensTimeoutMs: 1 };
  const request = { model: 'm', messages: [], maxOutputTokens: 1, options: {} };
  try {
    for await (const _ of upstream.complete(request, limits));
  } catch {}
};

test.each([
  ['timeout', 'open'],
  ['cut_stream', 'open'],
  ['unauthorized', 'open'],
  ['malformed', 'open'],
  ['rejected', 'closed'],
  ['context_length_exceeded', 'closed'],
  ['rate_limited', 'closed'],
  ['left', 'closed'],
] as const)('two calls that end with %s leave it %s', async (outcome, state) => {
  const { breaker } = setUp();
  const upstream = withBreaker(upstreamThat(outcome, outcome), breaker);
  await call(upstream);
  await call(upstream);
  expect(breaker.state()).toBe(state);
});

test('a good answer between two failures keeps it closed', async () => {
  const { breaker } = setUp();
  const upstream = withBreaker(upstreamThat('timeout', 'ok', 'timeout'), breaker);
  for (const _ of [1, 2, 3]) await call(upstream);
  expect(breaker.state()).toBe('closed');
});
