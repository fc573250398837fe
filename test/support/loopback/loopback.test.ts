import OpenAI from 'openai';
import { afterEach, describe, expect, test } from 'vitest';
import { type AnthropicScript, startAnthropicServer } from './anthropic-server.ts';
import { replies } from './openai-replies.ts';
import { type OpenAiScript, startOpenAiServer } from './openai-server.ts';
import { type ResponsesScript, startResponsesServer } from './responses-server.ts';
import { startTavilyServer, type TavilyScript } from './tavily-server.ts';

const open: { close(): Promise<void> }[] = [];
const openAi = async (script?: OpenAiScript) => {
  const server = await startOpenAiServer(script);
  open.push(server);
  return server;
};
const tavily = async (script?: TavilyScript) => {
  const server = await startTavilyServer(script);
  open.push(server);
  return server;
};
const responses = async (script: ResponsesScript) => {
  const server = await startResponsesServer(script);
  open.push(server);
  return server;
};
const anthropic = async (script: AnthropicScript) => {
  const server = await startAnthropicServer(script);
  open.push(server);
  return server;
};
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
});

const post = (url: string, body: object, signal?: AbortSignal) =>
  fetch(url, { method: 'POST', body: JSON.stringify(body), ...(signal ? { signal } : {}) });

describe('the OpenAI loopback server', () => {
  test('streams role, text, finish, usage and the end, and records what it got and billed', async () => {
    const server = await openAi(() => ({
      ...replies.says('a', 'b'),
      usage: { prompt_tokens: 7, completion_tokens: 2 },
    }));
    const body = { model: 'm', stream: true, stream_options: { include_usage: true } };
    const text = await (await post(`${server.url}/chat/completions`, body)).text();
    const chunks = text.split('\n\n').filter(Boolean);
    expect(chunks).toHaveLength(6);
    expect(chunks.at(-1)).toBe('data: [DONE]');
    expect(chunks.at(-2)).toContain('"choices":[],"usage":{"prompt_tokens":7');
    expect(server.requests[0]?.body).toEqual(body);
    expect(server.billed).toEqual({ promptTokens: 7, completionTokens: 2 });
  });

  test('chooses by attempt and answers without a stream', async () => {
    const server = await openAi(({ attempt }) => (attempt === 1 ? replies.rateLimited() : replies.says('ok')));
    const first = await post(`${server.url}/chat/completions`, { model: 'm' });
    const second = await post(`${server.url}/chat/completions`, { model: 'm' });
    expect([first.status, first.headers.get('retry-after')]).toEqual([429, '1']);
    expect(await second.json()).toMatchObject({ choices: [{ message: { content: 'ok' }, finish_reason: 'stop' }] });
  });

  test('notices a client that leaves, and does not take its own cut for one', async () => {
    const server = await openAi(({ attempt }) =>
      attempt === 1 ? { ...replies.says('a'), hangAfterChunks: 1 } : { ...replies.says('a'), cutAfterChunks: 1 },
    );
    const leave = new AbortController();
    await post(`${server.url}/chat/completions`, { stream: true }, leave.signal);
    leave.abort();
    await server.aborted(1);
    const cut = await post(`${server.url}/chat/completions`, { stream: true });
    await expect(cut.text()).rejects.toThrow();
    expect(server.requests[1]?.aborted).toBe(false);
  });

  test('embeds in the encoding that was asked for', async () => {
    const server = await openAi();
    const floats = await post(`${server.url}/embeddings`, { model: 'e', input: ['x', 'yy'] });
    const base64 = await post(`${server.url}/embeddings`, { model: 'e', input: 'x', encoding_format: 'base64' });
    expect(await floats.json()).toMatchObject({ data: [{ embedding: [0, 1, 0.5] }, { embedding: [1, 2, 0.5] }] });
    expect(await base64.json()).toMatchObject({ data: [{ embedding: expect.any(String) }] });
  });
});

describe('the Responses loopback server', () => {
  test('streams what the official client puts together again, and bills it', async () => {
    const server = await responses(() => ({
      kind: 'response',
      reasoning: ['hm'],
      text: ['a', 'b'],
      toolCalls: [{ id: 'c1', name: 'f', arguments: '{"x":1}' }],
      usage: { input_tokens: 7, output_tokens: 2 },
    }));
    const client = new OpenAI({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
    const deltas: string[] = [];
    const stream = client.responses.stream({ model: 'm', input: 'hi' });
    stream.on('response.output_text.delta', ({ delta }) => deltas.push(delta));
    const { output_text, output } = await stream.finalResponse();
    expect([deltas, output_text]).toEqual([['a', 'b'], 'ab']);
    expect(output.at(-1)).toMatchObject({ type: 'function_call', call_id: 'c1', arguments: '{"x":1}' });
    const whole = await client.responses.create({ model: 'm', input: 'hi' });
    expect(whole.output_text).toBe('ab');
    expect(server.billed).toEqual({ inputTokens: 14, outputTokens: 4 });
  });
});

describe('the Anthropic loopback server', () => {
  const body = { model: 'm', max_tokens: 5, stream: true, messages: [{ role: 'user', content: [] }] };
  const ask = (
    url: string,
    part: object = {},
    headers: Record<string, string> = { 'anthropic-version': '2023-06-01' },
  ) => fetch(`${url}/v1/messages`, { method: 'POST', headers, body: JSON.stringify({ ...body, ...part }) });

  test('streams start, blocks, totals and stop, and bills them', async () => {
    const usage = { input_tokens: 7, cache_read_input_tokens: 3, output_tokens: 2 };
    const server = await anthropic(() => ({ kind: 'message', text: ['a', 'b'], pings: true, usage }));
    const text = await (await ask(server.url)).text();
    expect([...text.matchAll(/^event: (\w+)$/gm)].map(([, type]) => type).filter((type) => type !== 'ping')).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    expect(server.billed).toEqual({ inputTokens: 7, cacheReadTokens: 3, cacheWriteTokens: 0, outputTokens: 2 });
  });

  test('refuses what the real one refuses', async () => {
    const server = await anthropic(() => ({ kind: 'message', text: ['a'] }));
    const user = (content: object[]) => ({ messages: [{ role: 'user', content }] });
    const refused = await Promise.all([
      ask(server.url, {}, {}),
      ask(server.url, { max_tokens: undefined }),
      ask(server.url, { messages: [{ role: 'assistant', content: [] }] }),
      ask(server.url, user([{ type: 'text', text: ' ' }])),
      ask(server.url, user([{ type: 'tool_use', id: 'c', name: 'f', input: {} }])),
    ]);
    expect(refused.map(({ status }) => status)).toEqual([400, 400, 400, 400, 400]);
  });
});

describe('the Tavily loopback server', () => {
  test('finds, counts credits and fails as told', async () => {
    const server = await tavily(({ attempt }) =>
      attempt === 1 ? { kind: 'results', results: [] } : { kind: 'error', status: 432 },
    );
    const found = await post(`${server.url}/search`, { query: 'q', search_depth: 'advanced', include_usage: true });
    expect(await found.json()).toMatchObject({ results: [], usage: { credits: 2 } });
    expect((await post(`${server.url}/search`, { query: 'q' })).status).toBe(432);
    expect(server.billed.credits).toBe(2);
  });
});
