import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { writeModel } from '../support/gguf/tiny-model.ts';
import { caller, story } from './tiny-models.ts';

/** Local models through the served API: with calls of the client's own tools, and by their own names. */
const withTools = writeModel(caller());
const without = writeModel(story());
afterAll(() => {
  for (const file of [withTools, without]) file.remove();
});

let gateway: TestGateway | undefined;
afterEach(() => gateway?.close());

async function start(path: string): Promise<TestGateway> {
  gateway = await startTestGateway({
    config: { relay: ['local/*'], models: { tiny: { path, context: 2048, device: 'cpu', threads: 1 } } },
    slots: { 'answer-1': { role: 'answer', local: 'tiny', quality: 'tiny', tools: true } },
  });
  return gateway;
}

const weather = {
  name: 'weather',
  parameters: { type: 'object', properties: { city: { enum: ['Rome'] } }, required: ['city'] },
};
const request = {
  model: 'orchestra',
  messages: [{ role: 'user' as const, content: 'Weather in Rome?' }],
  tools: [{ type: 'function' as const, function: weather }],
};

describe('a local answer slot', () => {
  test('calls a tool of the client', async () => {
    const { client } = await start(withTools.path);
    const [choice] = (await client.chat.completions.create(request)).choices;
    expect(choice?.finish_reason).toBe('tool_calls');
    const [call] = choice?.message.tool_calls ?? [];
    expect(call).toMatchObject({ type: 'function', function: { name: 'weather' } });
    expect(call?.type === 'function' && JSON.parse(call.function.arguments)).toEqual({ city: 'Rome' });
  });

  test('streams a call in pieces', async () => {
    const { client } = await start(withTools.path);
    const stream = client.chat.completions.stream({ ...request, tool_choice: 'required' });
    const { choices } = await stream.finalChatCompletion();
    const [call] = choices[0]?.message.tool_calls ?? [];
    expect(call?.type === 'function' && JSON.parse(call.function.arguments)).toEqual({ city: 'Rome' });
  });

  test('goes on once the tool has answered', async () => {
    const { client } = await start(withTools.path);
    const [choice] = (await client.chat.completions.create(request)).choices;
    const [call] = choice?.message.tool_calls ?? [];
    if (choice === undefined || call === undefined) throw new Error('it called nothing');
    const told = { role: 'tool' as const, tool_call_id: call.id, content: '{"sky": "clear"}' };
    const messages = [...request.messages, choice.message, told];
    const next = await client.chat.completions.create({ ...request, messages, tool_choice: 'none' });
    expect(next.choices[0]?.message.content).toContain('the good');
  });

  test('whose template knows no tools gets no such request', async () => {
    const { client, notes } = await start(without.path);
    expect(notes.join()).toContain('answer-1 (local/tiny) gets no request with tools');
    await expect(client.chat.completions.create(request)).rejects.toMatchObject({ status: 422 });
    const { choices } = await client.chat.completions.create({ ...request, tools: [] });
    expect(choices[0]?.message.content).toContain('the good');
  });
});

describe('a local model by its own name', () => {
  const ask = { model: 'local/tiny', messages: request.messages, max_tokens: 8, temperature: 0 };

  test('is listed, and answers without the loop', async () => {
    const { client } = await start(without.path);
    const models = [];
    for await (const { id } of client.models.list()) models.push(id);
    expect(models).toContain('local/tiny');
    const answer = await client.chat.completions.create(ask);
    expect(answer).toMatchObject({ object: 'chat.completion', model: 'local/tiny' });
    expect(answer.choices[0]?.message.content).toContain('the good');
    expect(answer.choices[0]?.logprobs).toBeNull();
    expect(answer.usage?.total_tokens).toBe(
      (answer.usage?.prompt_tokens ?? 0) + (answer.usage?.completion_tokens ?? 0),
    );
  });

  test('tells the chances of its tokens, whole and streamed alike', async () => {
    const { client } = await start(without.path);
    const asked = { ...ask, logprobs: true, top_logprobs: 2 };
    const whole = (await client.chat.completions.create(asked)).choices[0];
    const tokens = whole?.logprobs?.content ?? [];
    expect(tokens.map(({ token }) => token).join('')).toBe(whole?.message.content);
    expect(tokens[2]).toMatchObject({ token: ' enough', bytes: [...Buffer.from(' enough')] });
    expect(tokens[2]?.top_logprobs.map(({ token }) => token)).toEqual([' enough', '<|im_end|>']);
    const streamed = [];
    for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
      streamed.push(...(chunk.choices[0]?.logprobs?.content ?? []));
    }
    expect(streamed.map(({ token }) => token)).toEqual(tokens.map(({ token }) => token));
  });

  test('calls tools, streamed too', async () => {
    const { client } = await start(withTools.path);
    const asked = { ...request, model: 'local/tiny', tool_choice: 'required' as const };
    const [choice] = (await client.chat.completions.create(asked)).choices;
    expect(choice).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } });
    const { choices } = await client.chat.completions.stream(asked).finalChatCompletion();
    for (const { message } of [choice, choices[0]].filter((one) => one !== undefined)) {
      const [call] = message.tool_calls ?? [];
      expect(call?.type === 'function' && JSON.parse(call.function.arguments)).toEqual({ city: 'Rome' });
    }
  });

  test('refuses tools beside a schema, in words', async () => {
    const { client } = await start(withTools.path);
    const asked = { ...request, model: 'local/tiny', response_format: { type: 'json_object' as const } };
    await expect(client.chat.completions.create(asked)).rejects.toMatchObject({
      status: 400,
      param: 'response_format',
      message: expect.stringContaining('tools or a schema in one request, not both'),
    });
  });

  test('refuses what it cannot do, and what is too long', async () => {
    const { client } = await start(without.path);
    const long = [{ role: 'user' as const, content: 'z'.repeat(4_000) }];
    for (const changes of [{ n: 2 }, { messages: [] }, { tools: request.tools }, { messages: long }]) {
      await expect(client.chat.completions.create({ ...ask, ...changes })).rejects.toMatchObject({ status: 400 });
    }
    await expect(client.completions.create({ model: ask.model, prompt: 'hi' })).rejects.toMatchObject({ status: 400 });
  });

  test('J03 says which part of a schema it cannot be held to', async () => {
    const { client } = await start(without.path);
    const schema = { type: 'array', uniqueItems: true };
    const response_format = { type: 'json_schema' as const, json_schema: { name: 'list', schema } };
    await expect(client.chat.completions.create({ ...ask, response_format })).rejects.toMatchObject({
      status: 400,
      param: 'response_format',
      code: 'invalid_json_schema',
      message: expect.stringContaining('`uniqueItems`'),
    });
  });
});
