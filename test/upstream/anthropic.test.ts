import { afterEach, describe, expect, test, vi } from 'vitest';
import { createAnthropicUpstream } from '../../src/upstream/anthropic.ts';
import { anthropicBody } from '../../src/upstream/anthropic-request.ts';
import type { ChatRequest } from '../../src/upstream/chat.ts';
import {
  type AnthropicReply,
  type AnthropicScript,
  type AnthropicServer,
  anthropicError,
  startAnthropicServer,
} from '../support/loopback/anthropic-server.ts';
import { collect, endOf, failing, limits, textOf } from './upstream-contract.ts';

const running: AnthropicServer[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()));
});

async function upstreamThat(reply: AnthropicReply | AnthropicScript, path = '') {
  const server = await startAnthropicServer(typeof reply === 'function' ? reply : () => reply);
  running.push(server);
  const upstream = createAnthropicUpstream({ name: 'claude', baseUrl: `${server.url}${path}`, apiKey: 'sk-ant-1' });
  const ask = (part: Partial<ChatRequest> = {}) =>
    upstream.complete({ model: 'm', messages: [user('hi')], maxOutputTokens: 64, options: {}, ...part }, limits());
  /** The body that this request became. */
  const sent = async (part: Partial<ChatRequest>) => {
    await collect(ask(part));
    return server.requests.at(-1)?.body ?? {};
  };
  return { server, ask, sent };
}

const user = (content: string) => ({ role: 'user' as const, content });
const text = (words: string) => ({ type: 'text', text: words });
const says = (...words: string[]): AnthropicReply => ({ kind: 'message', text: words });
const call = (id: string, args = '{"city":"Oslo"}') => ({
  id,
  type: 'function',
  function: { name: 'city_temp', arguments: args },
});
const result = (id: string, content: string) => ({ role: 'tool' as const, tool_call_id: id, content });

describe('the request', () => {
  test('carries key and version in headers, and no bearer', async () => {
    const { server, sent } = await upstreamThat(says('ok'));
    await sent({});
    const { headers } = server.requests[0] ?? {};
    expect(headers).toMatchObject({ 'x-api-key': 'sk-ant-1', 'anthropic-version': '2023-06-01' });
    expect(headers).not.toHaveProperty('authorization');
  });

  test.each(['/', '/v1', '/v1/'])('finds its way from a base URL that ends in %s', async (path) => {
    const { ask } = await upstreamThat(says('ok'), path);
    expect(textOf(await collect(ask()))).toBe('ok');
  });

  test('keeps instructions apart, joins neighbours of one role, and drops empty texts', async () => {
    const { sent } = await upstreamThat(says('ok'));
    const body = await sent({
      messages: [
        { role: 'system', content: 'Be brief.' },
        user('one'),
        user('  '),
        user('two'),
        { role: 'assistant', content: '' },
        { role: 'developer', content: [{ type: 'text', text: 'Be kind.' }] },
        user('three'),
      ],
    });
    expect(body).toEqual({
      model: 'm',
      max_tokens: 64,
      stream: true,
      system: [text('Be brief.'), text('Be kind.')],
      messages: [{ role: 'user', content: [text('one'), text('two'), text('three')] }],
    });
  });

  test('puts all results of a turn before what the user says next', async () => {
    const { sent } = await upstreamThat(says('ok'));
    const { messages, tools, tool_choice } = await sent({
      messages: [
        user('weather?'),
        { role: 'assistant', content: 'Let me see.', tool_calls: [call('a'), call('b', 'not json')] },
        result('b', ''),
        result('a', '7'),
        user('and now?'),
      ],
    });
    expect(messages).toEqual([
      { role: 'user', content: [text('weather?')] },
      {
        role: 'assistant',
        content: [
          text('Let me see.'),
          { type: 'tool_use', id: 'a', name: 'city_temp', input: { city: 'Oslo' } },
          { type: 'tool_use', id: 'b', name: 'city_temp', input: { arguments: 'not json' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: [text('7')] },
          { type: 'tool_result', tool_use_id: 'b' },
          text('and now?'),
        ],
      },
    ]);
    // Calls in the history demand that their tool is defined; nobody may call it.
    expect([tools, tool_choice]).toEqual([[{ name: 'city_temp', input_schema: { type: 'object' } }], { type: 'none' }]);
  });

  test('gives every call an id of its own, in the characters that are allowed', async () => {
    const { sent } = await upstreamThat(says('ok'));
    const turn = (id: string) => [{ role: 'assistant' as const, tool_calls: [call(id)] }, result(id, id)];
    const body = await sent({ messages: [user('x'), ...turn('c'), ...turn('c'), ...turn('a b')] });
    const blocks = (body['messages'] as { content: Record<string, unknown>[] }[]).flatMap(({ content }) => content);
    const called = blocks.flatMap(({ type, id }) => (type === 'tool_use' ? [String(id)] : []));
    const answered = blocks.flatMap(({ type, tool_use_id: id }) => (type === 'tool_result' ? [String(id)] : []));
    expect(called).toEqual(answered);
    expect(new Set(called).size).toBe(3);
    expect(called.every((id) => /^[\w-]+$/.test(id))).toBe(true);
  });

  test('twice as many calls under one id take twice as many steps', () => {
    const looks = vi.spyOn(Set.prototype, 'has');
    const stepsFor = (count: number) => {
      looks.mockClear();
      const calls = ['c', 'c_3', ...Array.from({ length: count }, () => 'c')].map((id) => call(id));
      const messages = [user('x'), { role: 'assistant' as const, tool_calls: calls }];
      const body = anthropicBody({ model: 'm', messages, maxOutputTokens: 64, options: {} });
      const ids = body.messages.flatMap(({ content }) => content.flatMap((block) => block['id'] ?? []));
      expect(new Set(ids).size).toBe(count + 2);
      return looks.mock.calls.length;
    };
    try {
      expect(stepsFor(2_000) / stepsFor(1_000)).toBeLessThan(2.5);
    } finally {
      looks.mockRestore();
    }
  });

  test('shows images by address and as data, and files', async () => {
    const { sent } = await upstreamThat(says('ok'));
    const image = (url: string) => ({ type: 'image_url', image_url: { url, detail: 'low' } });
    const { messages } = await sent({
      messages: [
        {
          role: 'user',
          content: [
            text('what?'),
            image('https://example.org/a.png'),
            image('data:image/png;base64,AAAA'),
            { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,BBBB' } },
          ],
        },
      ],
    });
    expect(messages).toEqual([
      {
        role: 'user',
        content: [
          text('what?'),
          { type: 'image', source: { type: 'url', url: 'https://example.org/a.png' } },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
          { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'BBBB' } },
        ],
      },
    ]);
  });

  test('with content that it cannot carry is refused before anything is sent', async () => {
    const { ask, server } = await upstreamThat(says('ok'));
    const audio = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } };
    const { failure } = await failing(ask({ messages: [{ role: 'user', content: [audio] }] }));
    expect(failure.kind).toBe('rejected');
    expect(server.requests).toHaveLength(0);
  });

  test('says tools, choices and stops in its own words', async () => {
    const { sent } = await upstreamThat(says('ok'));
    const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
    const tools = [{ type: 'function', function: { name: 'city_temp', description: 'Now.', parameters } }];
    const choices = [
      ['auto', undefined],
      ['none', { type: 'none' }],
      ['required', { type: 'any' }],
      [
        { type: 'function', function: { name: 'city_temp' } },
        { type: 'tool', name: 'city_temp' },
      ],
    ] as const;
    for (const [tool_choice, expected] of choices) {
      const body = await sent({ options: { tools, tool_choice, stop: ['END', ' '], seed: 3, user: 'ann' } });
      expect(body['tools']).toEqual([{ name: 'city_temp', description: 'Now.', input_schema: parameters }]);
      expect(body['tool_choice']).toEqual(expected);
      expect(body['stop_sequences']).toEqual(['END']);
      expect(body).not.toHaveProperty('user');
    }
    const single = await sent({ options: { tools, tool_choice: 'auto', parallel_tool_calls: false } });
    expect(single['tool_choice']).toEqual({ type: 'auto', disable_parallel_tool_use: true });
  });

  test('clamps the temperature, and sends `top_p` only without one', async () => {
    const { sent } = await upstreamThat(says('ok'));
    expect(await sent({ options: { temperature: 1.7, top_p: 0.5 } })).toMatchObject({ temperature: 1 });
    expect(await sent({ options: { temperature: 0, top_p: 0.5 } })).not.toHaveProperty('top_p');
    expect(await sent({ options: { top_p: 0.5, top_k: 4 } })).toMatchObject({ top_p: 0.5, top_k: 4 });
  });

  test('learns which models take no temperature', async () => {
    const { ask, server } = await upstreamThat(({ body }) =>
      'temperature' in body
        ? anthropicError(400, 'invalid_request_error', '`temperature` is deprecated for this model.')
        : says('ok'),
    );
    const options = { temperature: 0.5 };
    expect(textOf(await collect(ask({ options })))).toBe('ok');
    expect(textOf(await collect(ask({ options })))).toBe('ok');
    expect(server.requests.map(({ body }) => 'temperature' in body)).toEqual([true, false, false]);
  });

  test('keeps the marks of what may be cached, with the lifetimes that the API knows', async () => {
    const { sent } = await upstreamThat(says('ok'));
    const marked = (mark: object) => ({ ...text('long'), cache_control: { type: 'ephemeral', ...mark } });
    const content = [marked({}), marked({ ttl: '1h' }), marked({ ttl: '5m' }), marked({ ttl: 'for ever', x: 1 })];
    const body = await sent({ messages: [{ role: 'system', content }, user('hi')] });
    expect(body['system']).toEqual([marked({}), marked({ ttl: '1h' }), marked({ ttl: '5m' }), marked({})]);
  });

  test('begins with the user although the conversation begins with an answer', async () => {
    const { ask } = await upstreamThat(says('ok'));
    const events = await collect(ask({ messages: [{ role: 'assistant', content: 'Hello!' }, user('hi')] }));
    expect(textOf(events)).toBe('ok');
  });
});

describe('the answer', () => {
  const frame = (event: object) => `data: ${JSON.stringify(event)}\n\n`;
  const start = (usage: object) => frame({ type: 'message_start', message: { usage } });

  test('reassembles calls whose pieces are interleaved', async () => {
    const open = (index: number, id: string) =>
      frame({ type: 'content_block_start', index, content_block: { type: 'tool_use', id, name: id, input: {} } });
    const more = (index: number, partial_json: string) =>
      frame({ type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json } });
    const { ask } = await upstreamThat({
      kind: 'raw',
      writes: [
        start({ input_tokens: 5, output_tokens: 1 }),
        open(1, 'a') +
          open(2, 'b') +
          more(2, '{"y"') +
          more(1, '{"x"') +
          more(2, ':2}') +
          more(1, ':1}') +
          open(3, 'c'),
        frame({ type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 9 } }),
        frame({ type: 'message_stop' }),
      ],
    });
    const pieces = (await collect(ask())).flatMap((event) => (event.type === 'tool_call' ? [event] : []));
    const argumentsOf = (call: number) =>
      pieces.map(({ index, argumentsDelta }) => (index === call ? argumentsDelta : '')).join('');
    expect([0, 1, 2].map(argumentsOf)).toEqual(['{"x":1}', '{"y":2}', '{}']);
  });

  test.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['model_context_window_exceeded', 'length'],
    ['refusal', 'content_filter'],
    ['something new', 'stop'],
  ])('that stops because of %s ends with %s', async (stopReason, finishReason) => {
    const { ask } = await upstreamThat({ kind: 'message', text: ['a'], stopReason });
    expect(endOf(await collect(ask()))).toMatchObject({ finishReason });
  });

  test('counts writes to the cache by lifetime where that is told, and input that is told last', async () => {
    const { ask } = await upstreamThat({
      kind: 'raw',
      writes: [
        start({
          input_tokens: 0,
          output_tokens: 1,
          cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 12 },
        }),
        frame({
          type: 'message_delta',
          delta: { stop_reason: 'end_turn' },
          usage: { input_tokens: 8, output_tokens: 3 },
        }),
        frame({ type: 'message_delta', delta: {}, usage: { output_tokens: 4 } }),
        frame({ type: 'message_stop' }),
      ],
    });
    expect(endOf(await collect(ask()))).toMatchObject({
      usage: {
        inputTokens: 8,
        cacheReadTokens: 0,
        cacheWriteTokens: 30,
        cacheWriteHourTokens: 12,
        outputTokens: 4,
        calls: 1,
      },
    });
  });

  test('that breaks off is charged for its whole input and for what it wrote', async () => {
    const { ask } = await upstreamThat({
      kind: 'message',
      text: ['x'.repeat(300), 'more'],
      usage: { input_tokens: 1000, cache_read_input_tokens: 5, output_tokens: 200 },
      cutAfterChunks: 3,
    });
    const { failure } = await failing(ask({ maxOutputTokens: 500 }));
    expect(failure).toMatchObject({
      kind: 'cut_stream',
      usage: { inputTokens: 1000, cacheReadTokens: 5, outputTokens: 100 },
    });
  });

  test('that breaks off in a script of three bytes a letter is charged a token for each', async () => {
    const { ask } = await upstreamThat({
      kind: 'message',
      text: ['早'.repeat(300), 'more'],
      usage: { input_tokens: 1000, output_tokens: 400 },
      cutAfterChunks: 3,
    });
    expect((await failing(ask({ maxOutputTokens: 500 }))).failure).toMatchObject({
      usage: { inputTokens: 1000, outputTokens: 300 },
    });
  });

  test('that breaks off is charged no more output than it was allowed', async () => {
    const { ask } = await upstreamThat({ kind: 'message', text: ['five '.repeat(50), 'more'], cutAfterChunks: 3 });
    const { failure } = await failing(ask({ maxOutputTokens: 50 }));
    expect(failure).toMatchObject({ kind: 'cut_stream', usage: { outputTokens: 50 } });
  });

  test('is complete although the connection dies after the stop reason', async () => {
    const { ask } = await upstreamThat({ kind: 'message', text: ['a'], cutAfterChunks: 5 });
    expect(endOf(await collect(ask()))).toMatchObject({ finishReason: 'stop' });
  });

  test('survives events and blocks of later versions', async () => {
    const { ask } = await upstreamThat({
      kind: 'raw',
      writes: [
        start({ input_tokens: 1, output_tokens: 1 }),
        frame({ type: 'ping' }),
        frame({ type: 'content_block_start', index: 0, content_block: { type: 'hologram' } }),
        frame({ type: 'content_block_delta', index: 0, delta: { type: 'light_delta' } }),
        frame({ type: 'content_block_start', index: 1, content_block: { type: 'text', text: 'mine' } }),
        frame({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } }),
        frame({ type: 'applause' }),
        frame({ type: 'message_stop' }),
      ],
    });
    expect(textOf(await collect(ask()))).toBe('mine');
  });
});

test.each([
  ['server_error', anthropicError(529, 'overloaded_error', 'Overloaded')],
  ['context_length_exceeded', anthropicError(413, 'request_too_large', 'Request exceeds the maximum size')],
  [
    'context_length_exceeded',
    anthropicError(
      400,
      'invalid_request_error',
      'input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000',
    ),
  ],
  ['unauthorized', anthropicError(403, 'permission_error', 'No.')],
  [
    'unauthorized',
    anthropicError(400, 'invalid_request_error', 'Your credit balance is too low to access the Anthropic API.'),
  ],
  ['unauthorized', anthropicError(402, 'billing_error', 'Pay.')],
  ['rejected', anthropicError(404, 'not_found_error', 'model: m')],
] satisfies [string, AnthropicReply][])('a refusal is %s', async (kind, reply) => {
  const { ask } = await upstreamThat(reply);
  expect((await failing(ask())).failure.kind).toBe(kind);
});
