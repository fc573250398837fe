import { afterEach, describe, expect, test } from 'vitest';
import type { ChatEvent, ChatRequest } from '../../src/upstream/chat.ts';
import { dialectFor, openAiDialect } from '../../src/upstream/dialect.ts';
import { createOpenAiUpstream, type OpenAiUpstreamOptions } from '../../src/upstream/openai.ts';
import { openAiBody } from '../../src/upstream/openai-request.ts';
import { type OpenAiReply, replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';
import { collect, endOf, everythingIn, failing, limits, textOf } from './upstream-contract.ts';

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

/** No half of a surrogate pair at its ends. */
const isWhole = (event: ChatEvent) => event.type === 'text' && !/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/.test(event.text);

const request = (part: Partial<ChatRequest> = {}): ChatRequest => ({
  model: 'm-1',
  messages: [{ role: 'user', content: 'hi' }],
  maxOutputTokens: 64,
  options: {},
  ...part,
});

const usage = (part: object) => ({
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  cacheWriteHourTokens: 0,
  reasoningTokens: 0,
  calls: 1,
  durationMs: 0,
  ...part,
});

describe('a good answer', () => {
  test('arrives piece by piece and ends once, with disjoint usage', async () => {
    const { upstream } = await upstreamThat({
      kind: 'completion',
      reasoning: ['think'],
      text: ['Hel', 'lo'],
      chunkDelayMs: 200,
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

describe('G09 a thought that a client replays', () => {
  const thought = ' I think \u00e9\u{1F600}\n\tso. ';
  const sent = (message: object, dialect: ReturnType<typeof dialectFor>) => {
    const messages = [{ role: 'assistant' as const, content: 'a', ...message }];
    return openAiBody({ model: 'm', messages, maxOutputTokens: 1, options: {} }, dialect).messages[0];
  };

  test.each([
    ['https://api.deepseek.com/v1', undefined, true],
    ['https://api.moonshot.ai/v1', undefined, true],
    ['https://api.deepseek.com/v1', false, false],
    ['http://127.0.0.1:8000/v1', true, true],
    ['http://127.0.0.1:8000/v1', undefined, false],
    ['https://deepseek.com.example.org/v1', undefined, false],
    ['https://api.openai.com/v1', undefined, false],
  ])('goes to %s, told %s: %s', (url, told, expected) => {
    for (const name of ['reasoning_content', 'reasoning']) {
      const message = sent({ [name]: thought }, dialectFor(url, told));
      expect(message).toEqual({ role: 'assistant', content: 'a', ...(expected ? { reasoning_content: thought } : {}) });
    }
  });

  test('is an assistant’s and a text, or none', () => {
    const dialect = dialectFor('https://api.deepseek.com/v1');
    for (const part of [{ reasoning_content: { a: 1 } }, { role: 'user', reasoning_content: thought }]) {
      expect(sent(part, dialect)).not.toHaveProperty('reasoning_content');
    }
  });
});

describe('the request', () => {
  test('is a bounded stream with usage, in the dialect of the upstream', async () => {
    const body = {
      messages: [
        { role: 'developer' as const, content: 'Be brief.' },
        {
          role: 'user' as const,
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
        { role: 'assistant' as const, content: null, reasoning_content: 'secret thought', tool_calls: [call('k1')] },
        { role: 'tool' as const, content: '7', tool_call_id: 'k1' },
      ],
      options: {
        temperature: 0.5,
        top_k: 4,
        user: 'ann',
        service_tier: 'flex',
        tools: [],
        tool_choice: 'auto',
        stop: null,
      },
    };
    const { upstream, server } = await upstreamThat(replies.says('ok'));
    await collect(upstream.complete(request(body), limits()));
    expect(server.requests[0]?.body).toEqual({
      model: 'm-1',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'a\nb' },
        { role: 'assistant', content: null, tool_calls: [call('k1')] },
        { role: 'tool', content: '7', tool_call_id: 'k1' },
      ],
      max_tokens: 64,
      stream: true,
      stream_options: { include_usage: true },
      temperature: 0.5,
      top_k: 4,
    });
    const { host, connection, 'content-length': _, ...headers } = server.requests[0]?.headers ?? {};
    expect(headers).toEqual({
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'accept-encoding': 'identity',
      'user-agent': 'orchestra',
    });
  });

  test("uses OpenAI's own words towards OpenAI", async () => {
    const { upstream, server } = await upstreamThat(replies.says('ok'), { dialect: openAiDialect });
    const messages = [{ role: 'developer' as const, content: 'Be brief.' }];
    await collect(upstream.complete(request({ messages, options: { top_k: 4, verbosity: 'low' } }), limits()));
    const body = server.requests[0]?.body;
    expect(body).toMatchObject({ max_completion_tokens: 64, verbosity: 'low', messages });
    expect(body).not.toHaveProperty('max_tokens');
    expect(body).not.toHaveProperty('top_k');
  });

  test('carries no key where none is configured', async () => {
    const { upstream, server } = await upstreamThat(replies.says('ok'), { apiKey: '' });
    await collect(upstream.complete(request(), limits()));
    expect(server.requests[0]?.headers).not.toHaveProperty('authorization');
  });

  test('holds well-formed text only', async () => {
    const { upstream, server } = await upstreamThat(replies.says('ok'));
    const messages = [{ role: 'user' as const, content: 'half \ud83d, whole 🎉, words \\ud83d' }];
    await collect(upstream.complete(request({ messages }), limits()));
    expect(server.requests[0]?.body['messages']).toEqual([
      { role: 'user', content: 'half \ufffd, whole 🎉, words \\ud83d' },
    ]);
  });
});

function call(id: string) {
  return { id, type: 'function', function: { name: 'city_temp', arguments: '{"city":"Oslo"}' } };
}

describe('an unusual answer', () => {
  test.each(['own_chunk', 'finish_chunk', 'every_chunk'] as const)(
    'reports usage once from %s',
    async (usagePlacement) => {
      const { upstream } = await upstreamThat({
        ...replies.says('a', 'b'),
        usagePlacement,
        usage: { prompt_tokens: 9, completion_tokens: 2 },
      });
      const events = await collect(upstream.complete(request(), limits()));
      expect(endOf(events)).toMatchObject({ usage: usage({ inputTokens: 9, outputTokens: 2 }) });
    },
  );

  test('has no usage when the upstream reports none', async () => {
    const { upstream } = await upstreamThat({ ...replies.says('a'), usage: null });
    expect(endOf(await collect(upstream.complete(request(), limits())))).toMatchObject({ usage: undefined });
  });

  test('gives tool calls and their finish reason whatever the upstream called it', async () => {
    const { upstream } = await upstreamThat({
      ...replies.calls(
        { id: 'c1', name: 'city_temp', arguments: '{"city":"Oslo"}' },
        { id: 'c2', name: 'f', arguments: '{}' },
      ),
      finishReason: 'stop',
    });
    const events = await collect(upstream.complete(request(), limits()));
    const calls = events.filter((event) => event.type === 'tool_call');
    expect(calls.map(({ index, id, name }) => [index, id, name])).toEqual([
      [0, 'c1', 'city_temp'],
      [0, undefined, undefined],
      [0, undefined, undefined],
      [1, 'c2', 'f'],
      [1, undefined, undefined],
      [1, undefined, undefined],
    ]);
    expect(calls.map(({ argumentsDelta }) => argumentsDelta).join('')).toBe('{"city":"Oslo"}{}');
    expect(endOf(events)).toMatchObject({ finishReason: 'tool_calls' });
  });

  test('says `length` when a tool call broke off, whatever the upstream says', async () => {
    const cut = { ...replies.calls({ id: 'c1', name: 'f', arguments: '{"path":"a' }), finishReason: 'tool_calls' };
    const { upstream } = await upstreamThat(cut);
    expect(endOf(await collect(upstream.complete(request(), limits())))).toMatchObject({ finishReason: 'length' });
  });

  test('never promises tool calls that are not there', async () => {
    const { upstream } = await upstreamThat({ ...replies.says('soup'), finishReason: 'tool_calls' });
    expect(endOf(await collect(upstream.complete(request(), limits())))).toMatchObject({ finishReason: 'stop' });
  });

  test.each(['reasoning_content', 'reasoning'] as const)('thinks aloud under the name %s', async (reasoningField) => {
    const { upstream } = await upstreamThat({ kind: 'completion', reasoning: ['hm'], reasoningField, text: ['a'] });
    const events = await collect(upstream.complete(request(), limits()));
    expect(events[0]).toEqual({ type: 'reasoning', text: 'hm' });
  });

  test('joins a character that was split over two deltas', async () => {
    const frame = (escaped: string) => `data: {"choices":[{"index":0,"delta":{"content":"${escaped}"}}]}\n\n`;
    const { upstream } = await upstreamThat({
      kind: 'raw',
      writes: [frame('a\\ud83c'), frame('\\udf89b'), frame('\\ud83c'), 'data: [DONE]\n\n'],
    });
    const events = await collect(upstream.complete(request(), limits()));
    expect(textOf(events)).toBe('a🎉b\ufffd');
    for (const event of events) expect(event.type === 'end' || isWhole(event)).toBe(true);
  });

  test('tells as one what came in together, and all of it before a failure', async () => {
    const frame = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;
    const together = [{ reasoning: 'h' }, { reasoning: 'm' }, { content: 'a' }, { content: 'b' }].map(frame).join('');
    const { upstream } = await upstreamThat({ kind: 'raw', writes: [`${together}data: {"error":{"code":500}}\n\n`] });
    const { said, failure } = await failing(upstream.complete(request(), limits()));
    expect(said).toEqual([
      { type: 'reasoning', text: 'hm' },
      { type: 'text', text: 'ab' },
    ]);
    expect(failure.kind).toBe('server_error');
  });

  test('is understood when the upstream ignores that a stream was asked for', async () => {
    const { upstream } = await upstreamThat({
      kind: 'json',
      status: 200,
      body: {
        choices: [{ index: 0, message: { role: 'assistant', content: 'whole' }, finish_reason: 'length' }],
        usage: { prompt_tokens: 3, completion_tokens: 1 },
      },
    });
    const events = await collect(upstream.complete(request(), limits()));
    expect(textOf(events)).toBe('whole');
    expect(endOf(events)).toMatchObject({ finishReason: 'length', usage: usage({ inputTokens: 3, outputTokens: 1 }) });
  });

  test('is complete although the connection dies after the finish reason', async () => {
    const { upstream } = await upstreamThat({ ...replies.says('a'), cutAfterChunks: 3 });
    const events = await collect(upstream.complete(request(), limits()));
    expect(endOf(events)).toMatchObject({ finishReason: 'stop', usage: undefined });
  });

  test('survives chunks without choices, with null choices and with other choices', async () => {
    const { upstream } = await upstreamThat({
      kind: 'raw',
      writes: [
        'data: {"choices":null}\n\ndata: {}\n\ndata: {"choices":[{"index":1,"delta":{"content":"other"}}]}\n\n',
        'data: {"choices":[{"delta":{"content":"mine","tool_calls":null}}]}\n\ndata: {"choices":[{"finish_reason":"stop"}]}\n\n',
      ],
    });
    expect(textOf(await collect(upstream.complete(request(), limits())))).toBe('mine');
  });
});

describe('a failure', () => {
  test.each([
    ['rate_limited', replies.rateLimited({ 'retry-after': '3' }), 429, 3_000],
    ['rate_limited', replies.rateLimited({ 'retry-after-ms': '250', 'retry-after': '9' }), 429, 250],
    ['unauthorized', replies.quotaExhausted, 429, undefined],
    ['server_error', replies.serverError(), 500, undefined],
    ['server_error', replies.serverError(529), 529, undefined],
    ['unauthorized', replies.badKey(key), 401, undefined],
    ['context_length_exceeded', replies.contextTooLong, 400, undefined],
    ['rejected', replies.invalid(), 400, undefined],
    ['rejected', { kind: 'json', status: 307, body: {}, headers: { location: 'http://127.0.0.1:9/' } }, 307, undefined],
  ] satisfies [string, OpenAiReply, number, number | undefined][])(
    'is %s',
    async (kind, reply, status, retryAfterMs) => {
      const { upstream, server } = await upstreamThat(reply);
      const { failure } = await failing(upstream.complete(request(), limits()));
      expect(failure).toMatchObject({ kind, status });
      expect(failure.retryAfterMs).toBe(retryAfterMs);
      expect(server.requests).toHaveLength(1);
    },
  );

  test.each([
    ['rejected', replies.invalid(`No such model. ${key}`, key)],
    ['unauthorized', replies.badKey(key)],
    ['malformed', { kind: 'raw', writes: [`data: ${key}\n\n`] }],
    [
      'server_error',
      { kind: 'raw', writes: [`data: {"error":{"message":"${key} at 127.0.0.1","code":"${key}"}}\n\n`] },
    ],
  ] satisfies [string, OpenAiReply][])('that is %s shows neither key nor host', async (kind, reply) => {
    const { upstream } = await upstreamThat(reply);
    const { failure } = await failing(upstream.complete(request(), limits()));
    expect(failure.kind).toBe(kind);
    expect(everythingIn(failure)).not.toMatch(/marked|127\.0\.0\.1|localhost|https?:/);
  });

  test('after text is a cut stream, with what was said and billed before', async () => {
    const { upstream } = await upstreamThat({
      ...replies.says('a', 'b', 'c'),
      usagePlacement: 'every_chunk',
      usage: { prompt_tokens: 5, completion_tokens: 2 },
      cutAfterChunks: 3,
    });
    const { said, failure } = await failing(upstream.complete(request(), limits()));
    expect(textOf(said)).toBe('ab');
    expect(failure).toMatchObject({ kind: 'cut_stream', usage: usage({ inputTokens: 5, outputTokens: 2 }) });
  });

  test('is also a stream that ends politely without having finished', async () => {
    const { upstream } = await upstreamThat({ ...replies.says('a'), finish: false, done: false });
    expect((await failing(upstream.complete(request(), limits()))).failure.kind).toBe('cut_stream');
  });

  test('is a frame that is not JSON', async () => {
    const { upstream } = await upstreamThat({ ...replies.says('a'), insert: { afterChunks: 2, data: '{"choices":[' } });
    const { said, failure } = await failing(upstream.complete(request(), limits()));
    expect(textOf(said)).toBe('a');
    expect(failure.kind).toBe('malformed');
  });

  test.each([
    ['rate_limited', '{"error":{"message":"slow down","code":429}}'],
    ['server_error', '{"error":{"message":"overloaded","type":"overloaded_error"}}'],
    ['context_length_exceeded', '{"error":{"message":"prompt is too long","type":"invalid_request_error"}}'],
  ])('inside the stream is %s', async (kind, data) => {
    const { upstream } = await upstreamThat({ ...replies.says('a'), insert: { afterChunks: 1, data } });
    expect((await failing(upstream.complete(request(), limits()))).failure.kind).toBe(kind);
  });
});

test('silence on our own side does not count against the upstream', async () => {
  const { upstream } = await upstreamThat(replies.says('a', 'b'));
  let text = '';
  for await (const event of upstream.complete(request(), limits({ betweenTokensTimeoutMs: 250 }))) {
    if (event.type === 'text') text += event.text;
    await new Promise((resolve) => setTimeout(resolve, 350));
  }
  expect(text).toBe('ab');
});

test('silence behind the headers or the role ends the call', async () => {
  for (const reply of [replies.silenceAfterHeaders, { ...replies.says('a'), hangAfterChunks: 1 }]) {
    const { upstream, server } = await upstreamThat(reply);
    const { failure } = await failing(upstream.complete(request(), limits({ firstTokenTimeoutMs: 100 })));
    expect(failure.kind).toBe('timeout');
    await server.aborted(1);
  }
});
