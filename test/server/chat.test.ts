import OpenAI from 'openai';
import { afterEach, expect, test } from 'vitest';
import { type BareServer, startServer } from '../support/bare-server.ts';

let gateway: BareServer | undefined;
afterEach(async () => gateway?.close());

const client = ({ origin }: BareServer) => new OpenAI({ baseURL: `${origin}/v1`, apiKey: 'any', maxRetries: 0 });

test('the openai client gets a whole answer with usage, cost and report', async () => {
  gateway = await startServer();
  const answer = await client(gateway).chat.completions.create({
    model: 'orchestra',
    messages: [{ role: 'user', content: 'hi' }],
  });
  expect(answer.choices[0]?.message.content).toBe('Hello there.');
  expect(answer).toMatchObject({ usage: { total_tokens: 13, cost: 0.0015 }, x_orchestra: { status: 'completed' } });
});

test('the openai client streams an answer', async () => {
  gateway = await startServer();
  const stream = client(gateway).chat.completions.stream({
    model: 'orchestra:cheap',
    messages: [{ role: 'user', content: 'hi' }],
    stream_options: { include_usage: true },
  });
  const final = await stream.finalChatCompletion();
  expect(final.choices[0]).toMatchObject({ message: { content: 'Hello there.' }, finish_reason: 'stop' });
  expect(final.usage).toMatchObject({ total_tokens: 13 });
});
