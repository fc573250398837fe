import { afterEach, describe, expect, test } from 'vitest';
import { replies } from './openai-replies.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from './openai-server.ts';
import { startTavilyServer, type TavilyScript, type TavilyServer } from './tavily-server.ts';

const open: (OpenAiServer | TavilyServer)[] = [];
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
