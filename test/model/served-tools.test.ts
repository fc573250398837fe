import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { writeModel } from '../support/gguf/tiny-model.ts';
import { caller, story } from './tiny-models.ts';

/** A local model answers with calls of the client's own tools, through the served API. */
const withTools = writeModel(caller());
const without = writeModel(story());
afterAll(() => {
  for (const file of [withTools, without]) file.remove();
});

let gateway: TestGateway | undefined;
afterEach(() => gateway?.close());

async function start(path: string): Promise<TestGateway> {
  gateway = await startTestGateway({
    config: { models: { tiny: { path, context: 2048, device: 'cpu', threads: 1 } } },
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
