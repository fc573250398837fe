import OpenAI from 'openai';
import { afterEach, expect, test } from 'vitest';
import { type BareServer, relayedModel, startServer } from '../support/bare-server.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';

let gateway: BareServer | undefined;
let upstream: OpenAiServer | undefined;
afterEach(async () => {
  await gateway?.close();
  await upstream?.close();
});

const start = async (script?: OpenAiScript) => {
  upstream = await startOpenAiServer(script);
  gateway = await startServer({}, { url: upstream.url, models: [relayedModel('m')] });
  return new OpenAI({ baseURL: `${gateway.origin}/v1`, apiKey: 'client-key', maxRetries: 0 });
};

const request = { model: 'loopback/m', messages: [{ role: 'user' as const, content: 'hi' }] };

test('passes a whole answer with its cost', async () => {
  const client = await start();
  const answer = await client.chat.completions.create(request);
  expect(answer.choices[0]?.message.content).toBe('Hello from loopback.');
  expect(answer.usage).toMatchObject({ cost: expect.any(Number) });
  expect(answer).toMatchObject({ x_orchestra: { model: 'loopback/m', status: 'completed' } });
  expect(upstream?.requests[0]?.headers.authorization).toBe('Bearer sk-upstream');
});

test('passes a stream with the cost on its usage chunk', async () => {
  const client = await start();
  const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
  const final = await stream.finalChatCompletion();
  expect(final.choices[0]?.message.content).toBe('Hello from loopback.');
  expect(final.usage).toMatchObject({ cost: expect.any(Number) });
});
