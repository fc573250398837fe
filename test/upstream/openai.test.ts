import { afterEach, describe, expect, test } from 'vitest';
import type { CallLimits, ChatEvent, ChatRequest } from '../../src/upstream/chat.ts';
import { UpstreamFailure } from '../../src/upstream/chat.ts';
import { openAiDialect } from '../../src/upstream/dialect.ts';
import { createOpenAiUpstream, type OpenAiUpstreamOptions } from '../../src/upstream/openai.ts';
import { type OpenAiReply, replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';

const key = 'sk-marked-secret-0123456789';
const running: OpenAiServer[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()));
});

async function upstreamThat(reply: OpenAiReply | OpenAiScript, options: Partial<OpenAiUpstreamOptions> = {}) {
  const server = await startOpenAiServer(typeof reply === 'function' ? reply : () => reply);
  running.push(server);
  const upstream = createOpenAiUpstream({ name: 'loop', baseUrl: server.url, apiKey: key, ...options });
  return { server, upstream };
}

const request = (part: Partial<ChatRequest> = {}): ChatRequest => ({
  model: 'm-1',
  messages: [{ role: 'user', content: 'hi' }],
  maxOutputTokens: 64,
  options: {},
  ...part,
});

const limits = (part: Partial<CallLimits> = {}): CallLimits => ({
  signal: new AbortController().signal,
  firstTokenTimeoutMs: 5_000,
  betweenTokensTimeoutMs: 5_000,
  ...part,
});

async function collect(events: AsyncIterable<ChatEvent>): Promise<ChatEvent[]> {
  const all: ChatEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

/** Everything said before the failure, and the failure. */
async function failing(events: AsyncIterable<ChatEvent>): Promise<{ said: ChatEvent[]; failure: UpstreamFailure }> {
  const said: ChatEvent[] = [];
  try {
    for await (const event of events) said.push(event);
  } catch (thrown) {
    if (thrown instanceof UpstreamFailure) return { said, failure: thrown };
    throw thrown;
  }
  throw new Error('the call did not fail');
}

const textOf = (events: readonly ChatEvent[]) => events.map((event) => (event.type === 'text' ? event.text : '')).join('');
const endOf = (events: readonly ChatEvent[]) => events.find((event) => event.type === 'end');
const usage = (part: object) => ({ cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0, calls: 1, durationMs: 0, ...part });

describe('a good answer', () => {
  test('arrives piece by piece and ends once, with disjoint usage', async () => {
    const { upstream } = await upstreamThat({
      kind: 'completion',
      reasoning: ['think'],
      text: ['Hel', 'lo'],
      usage: {
        prompt_tokens: 100,
        completion_tokens: 30,
        total_tokens: 130,
        prompt_tokens_details: { cached_tokens: 60 },
        completion_tokens_details: { reasoning_tokens: 20 },
      },
    });
    expect(await collect(upstream.complete(request(), limits()))).toEqual([
      { type: 'reasoning', text: 'think' },
      { type: 'text', text: 'Hel' },
      { type: 'text', text: 'lo' },
      {
        type: 'end',
        finishReason: 'stop',
        usage: usage({ inputTokens: 40, cacheReadTokens: 60, outputTokens: 10, reasoningTokens: 20 }),
      },
    ]);
  });

  test('is read alike with CRLF, comments, split characters and without [DONE]', async () => {
    const strange: OpenAiReply[] = [
      { ...replies.says('Grüße ', '漢字 🎉'), lineEnd: '\r\n', comments: true },
      { ...replies.says('Grüße ', '漢字 🎉'), bytesPerWrite: 1 },
      { ...replies.says('Grüße ', '漢字 🎉'), done: false },
      { ...replies.says('Grüße ', '漢字 🎉'), finish: false },
    ];
    for (const reply of strange) {
      const { upstream } = await upstreamThat(reply);
      const events = await collect(upstream.complete(request(), limits()));
      expect(textOf(events)).toBe('Grüße 漢字 🎉');
      expect(endOf(events)).toMatchObject({ finishReason: 'stop' });
    }
  });
});
