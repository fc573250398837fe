import { afterEach, expect, test } from 'vitest';
import { usageOf } from '../../src/cost/usage.ts';
import { type CallLimits, type ChatEvent, type ChatUpstream, UpstreamFailure } from '../../src/upstream/chat.ts';
import { createOpenAiUpstream } from '../../src/upstream/openai.ts';
import { withRetries } from '../../src/upstream/retry.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';

const running: OpenAiServer[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()));
});

/** Time that passes only while somebody sleeps; the dice always show a half. */
function createClock() {
  const slept: number[] = [];
  let nowMs = 0;
  return {
    slept,
    now: () => nowMs,
    random: () => 0.5,
    sleep: async (delayMs: number, signal: AbortSignal) => {
      signal.throwIfAborted();
      slept.push(delayMs);
      nowMs += delayMs;
    },
  };
}

async function retrying(script: OpenAiScript) {
  const server = await startOpenAiServer(script);
  running.push(server);
  const clock = createClock();
  const upstream = createOpenAiUpstream({ name: 'loop', baseUrl: server.url, apiKey: 'k' });
  const policy = { attempts: 3, baseDelayMs: 200, maxDelayMs: 4_000, clock };
  return { server, clock, upstream: withRetries(upstream, policy) };
}

const request = { model: 'm', messages: [{ role: 'user' as const, content: 'hi' }], maxOutputTokens: 9, options: {} };
const limits: CallLimits = {
  signal: new AbortController().signal,
  firstTokenTimeoutMs: 5_000,
  betweenTokensTimeoutMs: 5_000,
};

async function textFrom(events: AsyncIterable<ChatEvent>): Promise<string> {
  let text = '';
  for await (const event of events) if (event.type === 'text') text += event.text;
  return text;
}

test('tries again with growing, jittered delays until it works', async () => {
  const { upstream, server, clock } = await retrying(({ attempt }) =>
    attempt < 3 ? replies.serverError() : replies.says('ok'),
  );
  expect(await textFrom(upstream.complete(request, limits))).toBe('ok');
  expect(clock.slept).toEqual([100, 200]);
  expect(server.requests).toHaveLength(3);
});

test('gives up after so many attempts with the last failure', async () => {
  const { upstream, server } = await retrying(() => replies.serverError(503));
  await expect(textFrom(upstream.complete(request, limits))).rejects.toMatchObject({
    kind: 'server_error',
    status: 503,
  });
  expect(server.requests).toHaveLength(3);
});

test('waits as long as the upstream says', async () => {
  const { upstream, clock } = await retrying(({ attempt }) =>
    attempt === 1 ? replies.rateLimited({ 'retry-after': '2' }) : replies.says('ok'),
  );
  expect(await textFrom(upstream.complete(request, limits))).toBe('ok');
  expect(clock.slept).toEqual([2_000]);
});

test('does not wait long, since another slot may be free', async () => {
  const { upstream, clock } = await retrying(() => replies.rateLimited({ 'retry-after-ms': '4001' }));
  const failure = { kind: 'rate_limited', retryAfterMs: 4_001 };
  await expect(textFrom(upstream.complete(request, limits))).rejects.toMatchObject(failure);
  expect(clock.slept).toEqual([]);
});

test('does not wait when the wait is longer than the time that is left', async () => {
  const { upstream, clock } = await retrying(() => replies.rateLimited({ 'retry-after': '3' }));
  await expect(textFrom(upstream.complete(request, limits))).rejects.toMatchObject({ kind: 'rate_limited' });
  expect(clock.slept).toEqual([3_000]);
});

test('tries again after an error inside the stream', async () => {
  const reply = { ...replies.says('a'), insert: { afterChunks: 0, data: '{"error":{"code":500}}' } };
  const { upstream } = await retrying(({ attempt }) => (attempt === 1 ? reply : replies.says('ok')));
  expect(await textFrom(upstream.complete(request, limits))).toBe('ok');
});

test('does not try again after a cut before the first token, which may be billed', async () => {
  const { upstream, server } = await retrying(() => ({ ...replies.says('a'), cutAfterChunks: 1 }));
  await expect(textFrom(upstream.complete(request, limits))).rejects.toMatchObject({ kind: 'cut_stream' });
  expect(server.requests).toHaveLength(1);
});

test.each([
  ['a bad key', replies.badKey()],
  ['an empty account', replies.quotaExhausted],
  ['a rejected request', replies.invalid()],
  ['a prompt that is too long', replies.contextTooLong],
] as const)('does not try again after %s', async (_, reply) => {
  const { upstream, server } = await retrying(() => reply);
  await expect(textFrom(upstream.complete(request, limits))).rejects.toBeInstanceOf(UpstreamFailure);
  expect(server.requests).toHaveLength(1);
});

test('does not try again once something was said', async () => {
  const { upstream, server } = await retrying(() => ({ ...replies.says('a', 'b'), cutAfterChunks: 2 }));
  await expect(textFrom(upstream.complete(request, limits))).rejects.toMatchObject({ kind: 'cut_stream' });
  expect(server.requests).toHaveLength(1);
});

test('does not pay twice: a failure that was billed is final and says what it cost', async () => {
  const data = '{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3},"error":{"code":500}}';
  const { upstream, server } = await retrying(() => ({ ...replies.says('a'), insert: { afterChunks: 0, data } }));
  await expect(textFrom(upstream.complete(request, limits))).rejects.toMatchObject({
    kind: 'server_error',
    usage: usageOf({ inputTokens: 7, outputTokens: 3, calls: 1 }),
  });
  expect(server.requests).toHaveLength(1);
});

test('stops waiting when the caller leaves', async () => {
  const leave = new AbortController();
  const failing: ChatUpstream = {
    name: 'failing',
    async *complete() {
      setTimeout(() => leave.abort(), 20);
      throw new UpstreamFailure('rate_limited', 'later', { retryAfterMs: 4_000 });
    },
  };
  const upstream = withRetries(failing, { attempts: 3, baseDelayMs: 1, maxDelayMs: 5_000 });
  const result = textFrom(upstream.complete(request, { ...limits, signal: leave.signal }));
  await expect(result).rejects.toMatchObject({ name: 'AbortError' });
});
