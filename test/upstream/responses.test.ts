import { afterEach, describe, expect, test } from 'vitest';
import type { ChatRequest } from '../../src/upstream/chat.ts';
import { createResponsesUpstream } from '../../src/upstream/responses.ts';
import {
  type ResponsesReply,
  type ResponsesServer,
  startResponsesServer,
} from '../support/loopback/responses-server.ts';
import { collect, endOf, failing, limits, textOf } from './upstream-contract.ts';

const running: ResponsesServer[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()));
});

async function upstreamThat(reply: ResponsesReply) {
  const server = await startResponsesServer(() => reply);
  running.push(server);
  const upstream = createResponsesUpstream({ name: 'r', baseUrl: `${server.url}/`, apiKey: 'sk-1' });
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
const says = (...text: string[]): ResponsesReply => ({ kind: 'response', text });
const cityTemp = { id: 'c1', name: 'city_temp', arguments: '{"city":"Oslo"}' };

describe('the request', () => {
  test('is a bounded stream that is not stored, one item a message and one a call', async () => {
    const { sent, server } = await upstreamThat(says('ok'));
    const { id, ...called } = cityTemp;
    const body = await sent({
      messages: [
        { role: 'system', content: 'Be brief.' },
        user('weather?'),
        { role: 'assistant', content: 'Let me see.', tool_calls: [{ id, type: 'function', function: called }] },
        { role: 'tool', tool_call_id: id, content: [{ type: 'text', text: '7' }] },
        { role: 'assistant', content: null },
        user('and now?'),
      ],
    });
    expect(body).toEqual({
      model: 'm',
      max_output_tokens: 64,
      stream: true,
      store: false,
      input: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'weather?' },
        { role: 'assistant', content: 'Let me see.' },
        { type: 'function_call', call_id: 'c1', name: 'city_temp', arguments: '{"city":"Oslo"}' },
        { type: 'function_call_output', call_id: 'c1', output: '7' },
        { role: 'user', content: 'and now?' },
      ],
    });
    expect(server.requests[0]?.headers.authorization).toBe('Bearer sk-1');
  });

  test('says parts in its own words, and refuses what it cannot carry before anything is sent', async () => {
    const { sent, ask, server } = await upstreamThat(says('ok'));
    const { input } = await sent({
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'what?' },
            { type: 'image_url', image_url: { url: 'https://example.org/a.png', detail: 'low' } },
            { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,BBBB' } },
          ],
        },
      ],
    });
    expect(input).toEqual([
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'what?' },
          { type: 'input_image', image_url: 'https://example.org/a.png', detail: 'low' },
          { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,BBBB' },
        ],
      },
    ]);
    const audio = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } };
    const refused = [{ messages: [{ role: 'user' as const, content: [audio] }] }, { options: { stop: 'END' } }];
    for (const part of refused) expect((await failing(ask(part))).failure.kind).toBe('rejected');
    expect(server.requests).toHaveLength(1);
  });

  test('flattens tools and declines the strictness that is the default here', async () => {
    const { sent } = await upstreamThat(says('ok'));
    const parameters = { type: 'object', properties: {} };
    const body = await sent({
      options: {
        tools: [
          { type: 'function', function: { name: 'f', description: 'Does.', parameters } },
          { type: 'function', function: { name: 'g', parameters, strict: true } },
        ],
        tool_choice: { type: 'function', function: { name: 'f' } },
        parallel_tool_calls: false,
      },
    });
    expect(body).toMatchObject({
      tools: [
        { type: 'function', name: 'f', description: 'Does.', parameters, strict: false },
        { type: 'function', name: 'g', parameters, strict: true },
      ],
      tool_choice: { type: 'function', name: 'f' },
      parallel_tool_calls: false,
    });
  });

  test('says format, verbosity and effort where this API wants them', async () => {
    const { sent } = await upstreamThat(says('ok'));
    const schema = { type: 'object', properties: {} };
    const options = {
      temperature: 0.5,
      verbosity: 'low',
      reasoning_effort: 'high',
      response_format: { type: 'json_schema', json_schema: { name: 'n', strict: true, schema } },
      user: 'ann',
      seed: 3,
      logit_bias: null,
    };
    const { model, input, max_output_tokens, stream, store, ...rest } = await sent({ options });
    expect(rest).toEqual({
      temperature: 0.5,
      text: { format: { type: 'json_schema', name: 'n', strict: true, schema }, verbosity: 'low' },
      reasoning: { effort: 'high' },
    });
    expect(await sent({ options: { response_format: { type: 'json_object' } } })).toMatchObject({
      text: { format: { type: 'json_object' } },
    });
  });
});

describe('the answer', () => {
  test('is read alike when items come whole, and when the stream that was asked for does not', async () => {
    const reply = { kind: 'response' as const, text: ['who', 'le'], toolCalls: [cityTemp] };
    const { ask: wholeItems } = await upstreamThat({ ...reply, deltas: false });
    const output = [
      { type: 'reasoning', summary: [] },
      { type: 'message', content: [{ type: 'output_text', text: 'whole' }] },
      { type: 'function_call', call_id: 'c1', name: 'city_temp', arguments: cityTemp.arguments },
    ];
    const usage = { input_tokens: 3, output_tokens: 2 };
    const body = { object: 'response', status: 'completed', output, usage };
    const { ask: unstreamed } = await upstreamThat({ kind: 'json', status: 200, body });
    for (const ask of [wholeItems, unstreamed]) {
      const events = await collect(ask());
      expect(textOf(events)).toBe('whole');
      expect(events.filter(({ type }) => type === 'tool_call')).toEqual([
        { type: 'tool_call', index: 0, id: 'c1', name: 'city_temp', argumentsDelta: cityTemp.arguments },
      ]);
      expect(endOf(events)).toMatchObject({ finishReason: 'tool_calls', usage: { calls: 1 } });
    }
  });

  test('that was filtered says so', async () => {
    const { ask } = await upstreamThat({ kind: 'response', text: ['a'], incomplete: 'content_filter' });
    expect(endOf(await collect(ask()))).toMatchObject({ finishReason: 'content_filter' });
  });

  test.each([
    ['rate_limited', 'rate_limit_exceeded'],
    ['server_error', 'server_error'],
    ['context_length_exceeded', 'context_length_exceeded'],
    ['rejected', 'invalid_prompt'],
  ])('that fails at its end is %s, with what it cost', async (kind, code) => {
    const { ask } = await upstreamThat({
      kind: 'response',
      text: ['a'],
      error: { code, message: 'It failed.' },
      usage: { input_tokens: 9, output_tokens: 2 },
    });
    const { failure } = await failing(ask());
    expect(failure).toMatchObject({ kind, usage: { inputTokens: 9, outputTokens: 2 } });
  });

  test('that ends politely without its last event is a cut stream', async () => {
    const { ask } = await upstreamThat({
      kind: 'raw',
      writes: ['data: {"type":"response.output_text.delta","output_index":0,"delta":"a"}\n\n', 'data: [DONE]\n\n'],
    });
    expect((await failing(ask())).failure.kind).toBe('cut_stream');
  });
});
