import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunSpec } from '../../src/router/run.ts';
import { type BareServer, startServer } from '../support/bare-server.ts';
import { ask, askChat, errorOf, user } from '../support/http.ts';
import { type ScriptedOrchestrator, scriptedOrchestrator } from '../support/scripted-orchestrator.ts';

let server: BareServer;
let orchestrator: ScriptedOrchestrator;
beforeAll(async () => {
  orchestrator = scriptedOrchestrator();
  server = await startServer({ orchestrator });
});
afterAll(() => server.close());

/** What the loop was asked to do for a chat with these fields. */
async function specOf(fields: object): Promise<RunSpec> {
  const before = orchestrator.specs.length;
  const reply = await askChat(server, fields);
  expect([reply.status, reply.text.slice(0, 300)]).toEqual([200, expect.any(String)]);
  const spec = orchestrator.specs[before];
  if (!spec) throw new Error('the loop was not asked');
  return spec;
}

/** The path of the 400 that these fields cause, before the loop is asked and before a stream is opened. */
async function refusedParam(fields: object): Promise<unknown> {
  const before = orchestrator.specs.length;
  const reply = await askChat(server, { stream: true, ...fields });
  expect([reply.status, orchestrator.specs.length]).toEqual([400, before]);
  expect(errorOf(reply)).toMatchObject({ type: 'invalid_request_error', code: 'invalid_request' });
  return errorOf(reply)['param'];
}

const weather = { type: 'function', function: { name: 'city_temp', parameters: { type: 'object', properties: {} } } };

describe('fields', () => {
  test('P00 unknown keys are accepted anywhere', async () => {
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'hi', cache_control: {} }], id: 7 }];
    const spec = await specOf({ messages, foo: 1, thinking: {}, tools: [{ ...weather, strict: true, x: 1 }] });
    expect(spec.answerOptions).not.toHaveProperty('foo');
  });

  test('P01 null equals absent for every optional field', async () => {
    const names = [
      ...[
        'stream',
        'stream_options',
        'max_tokens',
        'max_completion_tokens',
        'temperature',
        'top_p',
        'seed',
        'stop',
        'n',
      ],
      ...['tools', 'tool_choice', 'parallel_tool_calls', 'functions', 'function_call', 'response_format', 'modalities'],
      ...['logprobs', 'top_logprobs', 'logit_bias', 'presence_penalty', 'frequency_penalty', 'reasoning_effort'],
      ...['verbosity', 'metadata', 'service_tier', 'user', 'store', 'preferences', 'provider', 'max_cost'],
    ];
    const spec = await specOf(Object.fromEntries(names.map((name) => [name, null])));
    expect(spec.answerOptions).toEqual({});
  });

  test.each<[unknown, object]>([
    ['model', { model: undefined }],
    ['model', { model: 7 }],
    ['messages', { messages: undefined }],
    ['messages', { messages: [] }],
    ['messages.0.role', { messages: [{ role: 'robot', content: 'x' }] }],
    ['temperature', { temperature: 'hot' }],
    ['max_tokens', { max_tokens: 0 }],
    ['stop', { stop: 7 }],
    ['n', { n: 2 }],
    ['logprobs', { logprobs: true }],
    ['modalities', { modalities: ['text', 'audio'] }],
    ['messages', { messages: [...user('x'), { role: 'assistant', content: 'y' }] }],
    ['tool_choice', { tool_choice: 'required' }],
    ['tool_choice', { tool_choice: 'required', tools: [] }],
    ['tool_choice', { tool_choice: { type: 'function', function: { name: 'other' } }, tools: [weather] }],
    ['response_format.json_schema', { response_format: { type: 'json_schema' } }],
    ['response_format.json_schema.name', { response_format: { type: 'json_schema', json_schema: {} } }],
    ['response_format.type', { response_format: { type: 'yaml' } }],
  ])('P02 a wrong %s is 400 before the stream is opened', async (param, fields) => {
    expect(await refusedParam(fields)).toBe(param);
  });

  test.each(['[]', '7', '"x"', 'null', ''])('P02 the body %s is 400', async (body) => {
    expect((await ask(server, '/v1/chat/completions', { method: 'POST', body })).status).toBe(400);
  });

  test('P03 enumerations are open', async () => {
    const fields = { reasoning_effort: 'colossal', verbosity: 'whisper', service_tier: 'platinum' };
    expect((await specOf(fields)).answerOptions).toMatchObject({ reasoning_effort: 'colossal', verbosity: 'whisper' });
  });

  test('max_completion_tokens wins over max_tokens', async () => {
    expect((await specOf({ max_tokens: 5 })).maxAnswerTokens).toBe(5);
    expect((await specOf({ max_tokens: 5, max_completion_tokens: 9 })).maxAnswerTokens).toBe(9);
  });

  test('fields of the answer go to whoever writes it, the others do not', async () => {
    const kept = { temperature: 0.5, top_p: 0.9, stop: ['a', 'b', 'c', 'd', 'e'], seed: 4, logit_bias: { 7: -1 } };
    const dropped = { user: 'someone', store: true, n: 1, logprobs: false, metadata: { a: 'b' } };
    const spec = await specOf({ ...kept, ...dropped });
    expect(spec.answerOptions).toEqual(kept);
    expect(spec.seed).toBe(4);
  });

  test('tools and their choice go on, and become a need only when they may be used', async () => {
    const used = await specOf({ tools: [weather], tool_choice: 'auto' });
    expect(used.answerOptions).toMatchObject({ tools: [weather], tool_choice: 'auto' });
    expect(used.needs.clientTools).toBe(true);
    expect((await specOf({ tools: [weather], tool_choice: 'none' })).needs.clientTools).toBe(false);
    expect((await specOf({ tools: [] })).answerOptions).toEqual({});
  });

  test('legacy functions become tools', async () => {
    const { function: definition } = weather;
    const spec = await specOf({ functions: [definition], function_call: { name: 'city_temp' } });
    expect(spec.answerOptions).toEqual({
      tools: [{ type: 'function', function: definition }],
      tool_choice: { type: 'function', function: { name: 'city_temp' } },
    });
  });

  test('a schema, parts and length become needs', async () => {
    const schema = { type: 'json_schema', json_schema: { name: 's', schema: {}, strict: true } };
    const content = [
      { type: 'text', text: '12345678' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
      { type: 'input_audio', input_audio: {} },
      { type: 'file', file: {} },
      { type: 'refusal', refusal: 'no' },
    ];
    const { needs } = await specOf({ response_format: schema, messages: [{ role: 'user', content }] });
    expect(needs).toMatchObject({ jsonSchema: true, input: ['text', 'image', 'audio', 'file'] });
    expect((await specOf({ messages: user('😀'.repeat(400)) })).needs.contextTokens).toBe(100);
  });

  test('J06 json_object needs no schema', async () => {
    expect((await specOf({ response_format: { type: 'json_object' } })).needs.jsonSchema).toBe(false);
  });
});

describe('messages', () => {
  const call = { id: 'k1', type: 'function', function: { name: 'city_temp', arguments: '{}' } };
  const tool = { role: 'tool', tool_call_id: 'k1', content: '7' };

  test.each<[string, object[]]>([
    [
      'G01 all roles',
      [...user('a'), { role: 'function', name: 'f', content: '1' }, { role: 'developer', content: 'b' }],
    ],
    [
      'G02 several system messages anywhere',
      [...user('a'), { role: 'system', content: 'x' }, { role: 'system', content: 'y' }],
    ],
    [
      'G03 string, empty, null and missing content',
      [{ role: 'user', content: '' }, { role: 'assistant' }, { role: 'user', content: null }],
    ],
    [
      'G03 parts of every kind',
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'video_url', video_url: {} },
          ],
        },
      ],
    ],
    ['G04 calls with content null', [...user('a'), { role: 'assistant', content: null, tool_calls: [call] }, tool]],
    ['G04 calls with content ""', [...user('a'), { role: 'assistant', content: '', tool_calls: [call] }, tool]],
    ['G04 calls with content " "', [...user('a'), { role: 'assistant', content: ' ', tool_calls: [call] }, tool]],
    ['G04 calls without content', [...user('a'), { role: 'assistant', tool_calls: [call] }, tool]],
    ['G05 an empty assistant turn', [...user('a'), { role: 'assistant', content: '' }, ...user('b')]],
    [
      'G07 tool results out of order and with unknown ids',
      [...user('a'), { role: 'assistant', tool_calls: [call] }, { ...tool, tool_call_id: 'zz' }, tool],
    ],
    [
      'G09 replayed reasoning',
      [
        ...user('a'),
        { role: 'assistant', content: 'b', reasoning_content: 'c', annotations: [], audio: null },
        ...user('d'),
      ],
    ],
  ])('%s are accepted', async (_, messages) => {
    expect((await specOf({ messages })).messages).toHaveLength(messages.length);
  });

  test('G06 images in a tool message move into a user message behind the tool messages', async () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } };
    const second = { role: 'tool', tool_call_id: 'k2', content: 'ok' };
    const messages = [
      ...user('a'),
      { role: 'assistant', tool_calls: [call] },
      { ...tool, content: [{ type: 'text', text: '7' }, image] },
      second,
    ];
    const spec = await specOf({ messages });
    expect(spec.messages.slice(2)).toEqual([
      { ...tool, content: [{ type: 'text', text: '7' }] },
      second,
      { role: 'user', content: [image] },
    ]);
    expect(spec.needs.input).toContain('image');
  });

  test('G08 arguments as an object become a string', async () => {
    const object = { ...call, function: { name: 'city_temp', arguments: { city: 'Oslo' } } };
    const spec = await specOf({ messages: [...user('a'), { role: 'assistant', tool_calls: [object] }, tool] });
    expect(spec.messages[1]?.tool_calls?.[0]?.function?.arguments).toBe('{"city":"Oslo"}');
  });

  test('G08 a call without arguments has none', async () => {
    const bare = { ...call, function: { name: 'city_temp' } };
    const spec = await specOf({ messages: [...user('a'), { role: 'assistant', tool_calls: [bare] }, tool] });
    expect(spec.messages[1]?.tool_calls?.[0]?.function?.arguments).toBe('{}');
  });

  test('G10 an image URL may be a plain string', async () => {
    const content = [{ type: 'image_url', image_url: 'https://example.org/a.png' }];
    const spec = await specOf({ messages: [{ role: 'user', content }] });
    expect(spec.messages[0]?.content).toEqual([{ type: 'image_url', image_url: { url: 'https://example.org/a.png' } }]);
  });

  test('G11 half surrogate pairs become U+FFFD, whole ones stay', async () => {
    const body = '{"model":"orchestra","messages":[{"role":"user","content":"a\\ud83d b\\ud83d\\ude00 c\\ude00"}]}';
    expect((await ask(server, '/v1/chat/completions', { body })).status).toBe(200);
    expect(orchestrator.specs.at(-1)?.messages[0]?.content).toBe('a\ufffd b😀 c\ufffd');
  });

  test('function calls of old become tool calls and tool messages', async () => {
    const messages = [
      ...user('a'),
      { role: 'assistant', content: null, function_call: { name: 'city_temp', arguments: '{}' } },
      { role: 'function', name: 'city_temp', content: '7' },
    ];
    const spec = await specOf({ messages });
    expect(spec.messages[1]?.tool_calls).toMatchObject([{ id: 'call_legacy1', function: { name: 'city_temp' } }]);
    expect(spec.messages[2]).toEqual({ role: 'tool', tool_call_id: 'call_legacy1', content: '7' });
  });
});
