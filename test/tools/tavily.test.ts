import { afterEach, expect, test } from 'vitest';
import { createTavilySource, type TavilyOptions } from '../../src/tools/tavily.ts';
import { startTavilyServer, type TavilyScript, type TavilyServer } from '../support/loopback/tavily-server.ts';

const key = 'tvly-secret';
let server: TavilyServer;
afterEach(() => server.close());

async function sourceOn(script?: TavilyScript, part: Partial<TavilyOptions> = {}) {
  server = await startTavilyServer(script);
  const options = { name: 'tavily', meter: 'tool:tavily', apiKey: key, privacy: 'no_training' } as const;
  return createTavilySource({ ...options, baseUrl: server.url, ...part });
}

const request = (part: { query?: string; limit?: number; signal?: AbortSignal } = {}) => ({
  query: 'tides in Brest',
  limit: 3,
  signal: new AbortController().signal,
  ...part,
});

const page = (number: number, content = `Page ${number}`) => ({
  title: `Title ${number}`,
  url: `https://example.org/${number}`,
  content,
});

test('a search gives documents, best first, and costs the credits that were billed', async () => {
  const source = await sourceOn(() => ({ kind: 'results', results: [page(1), page(2)], credits: 2 }));
  const found = await source.search(request());
  expect(found.documents).toEqual([
    { text: 'Page 1', source: 'tavily', title: 'Title 1', url: 'https://example.org/1', privacy: 'any' },
    { text: 'Page 2', source: 'tavily', title: 'Title 2', url: 'https://example.org/2', privacy: 'any' },
  ]);
  expect(found.usage.calls).toBe(2);
  expect(found.estimated).toBeUndefined();
});

test('a search sends the query, the limit and the key, and asks for usage', async () => {
  const source = await sourceOn();
  await source.search(request());
  expect(server.requests[0]?.headers['authorization']).toBe(`Bearer ${key}`);
  expect(server.requests[0]?.body).toEqual({
    query: 'tides in Brest',
    max_results: 3,
    search_depth: 'basic',
    include_usage: true,
  });
});

test.each([
  ['not reported', null],
  ['more than can be', 1e300],
])('credits that are %s are estimated, and that is said', async (_, credits) => {
  const source = await sourceOn(() => ({ kind: 'results', results: [page(1)], credits }));
  expect(await source.search(request())).toMatchObject({ usage: { calls: 1 }, estimated: true });
});

test('more results than wanted are dropped, and so are empty ones', async () => {
  const results = [page(1), page(2, '  '), page(3), page(4), page(5)];
  const source = await sourceOn(() => ({ kind: 'results', results }));
  const { documents } = await source.search(request());
  expect(documents.map(({ title }) => title)).toEqual(['Title 1', 'Title 3', 'Title 4']);
});

test('hidden characters, strange links and excess length do not pass', async () => {
  const tags = [...'ignore'].map((letter) => String.fromCodePoint(0xe0000 + letter.charCodeAt(0))).join('');
  const result = {
    title: 'A\u202Ename\u0000',
    url: 'javascript:alert(1)',
    content: `seen${tags}\u200B text \u{1F469}\u200D\u{1F680} ${'x'.repeat(9_000)}`,
  };
  const long = { title: 'Long', url: `https://example.org/${'x'.repeat(2_000)}`, content: 'kept' };
  const source = await sourceOn(() => ({ kind: 'results', results: [result, long] }));
  const [document, unaddressed] = (await source.search(request())).documents;
  expect(unaddressed).toMatchObject({ title: 'Long', text: 'kept' });
  expect(unaddressed?.url).toBeUndefined();
  expect(document?.title).toBe('Aname');
  expect(document?.url).toBeUndefined();
  expect(document?.text).toMatch(/^seen text \u{1F469}\u200D\u{1F680} x+ …$/u);
  expect([...(document?.text ?? '')]).toHaveLength(4_000);
});

test('one odd result costs itself, not the others', async () => {
  const body = JSON.stringify({
    results: [null, { title: 4, url: [], content: 'kept' }, 'x', { content: 7 }],
    usage: 'x',
  });
  const source = await sourceOn(() => ({ kind: 'raw', body }));
  const found = await source.search(request());
  expect(found.documents).toEqual([{ text: 'kept', source: 'tavily', privacy: 'any' }]);
  expect(found).toMatchObject({ usage: { calls: 1 }, estimated: true });
});

test.each([
  [400, 'rejected', false],
  [401, 'unauthorized', false],
  [404, 'rejected', false],
  [429, 'rate_limited', true],
  [432, 'exhausted', false],
  [433, 'exhausted', false],
  [500, 'unavailable', true],
])('status %i is a failure (%s) that costs nothing', async (status, kind, retryable) => {
  const source = await sourceOn(() => ({ kind: 'error', status, message: `no ${key} at 127.0.0.1` }));
  const failure: unknown = await source.search(request()).catch((thrown: unknown) => thrown);
  expect(failure).toMatchObject({ name: 'SearchFailure', kind, retryable, usage: undefined });
  expect(String(failure)).not.toMatch(/127\.0\.0\.1|tvly/);
});

test.each([
  ['something that is not JSON', { kind: 'raw', body: '<html>' }],
  ['JSON of another shape', { kind: 'raw', body: '{"results": 4}' }],
  ['an answer that breaks off', { kind: 'raw', body: '{"results": [', destroy: true }],
  ['more than is allowed', { kind: 'raw', body: `{"results": [], "x": "${'x'.repeat(20_000)}"}` }],
] as const)('%s is a failure that may be tried again and is booked as one search', async (_name, reply) => {
  const source = await sourceOn(() => reply, { maxResponseBytes: 10_000 });
  await expect(source.search(request())).rejects.toMatchObject({
    kind: 'unavailable',
    retryable: true,
    usage: { calls: 1 },
  });
});

test('silence is a failure by our clock, booked as one search', async () => {
  const source = await sourceOn(() => ({ kind: 'silence' }), { timeoutMs: 100 });
  await expect(source.search(request())).rejects.toMatchObject({ kind: 'unavailable', usage: { calls: 1 } });
  await server.aborted(1);
});

test('a server that is not there is a failure without its address', async () => {
  const source = await sourceOn();
  const gone = await startTavilyServer();
  await gone.close();
  const absent = createTavilySource({ ...source, apiKey: key, baseUrl: gone.url });
  const failure: unknown = await absent.search(request()).catch((thrown: unknown) => thrown);
  expect(failure).toMatchObject({ kind: 'unavailable', message: 'The connection to the search engine failed.' });
});

test('a fired signal is thrown and leaves the search engine', async () => {
  const source = await sourceOn(() => ({ kind: 'silence' }));
  const leaving = new AbortController();
  const search = source.search(request({ signal: leaving.signal }));
  await expect.poll(() => server.requests.length).toBe(1);
  leaving.abort(new Error('the client left'));
  await expect(search).rejects.toMatchObject({ name: 'AbortError' });
  await server.aborted(1);
  await expect(source.search(request({ signal: leaving.signal }))).rejects.toMatchObject({ name: 'AbortError' });
  expect(server.requests).toHaveLength(1);
});
