import { afterEach, expect, test } from 'vitest';
import { loadContract } from '../../src/contract/load.ts';
import { createSearchTool } from '../../src/tools/search.ts';
import { createSearxngSource, type SearxngOptions } from '../../src/tools/searxng.ts';
import { type SearxngScript, type SearxngServer, startSearxngServer } from '../support/loopback/searxng-server.ts';
import { aSlot } from '../support/slots.ts';
import { executed, inputOf } from './tool-input.ts';

const servers: SearxngServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function sourceOn(script?: SearxngScript, part: Partial<SearxngOptions> = {}) {
  const server = await startSearxngServer(script);
  servers.push(server);
  const options = { name: 'web', meter: 'tool:web', privacy: 'self_hosted' } as const;
  return { server, source: createSearxngSource({ ...options, baseUrl: server.url, ...part }) };
}

const request = (part: { query?: string; signal?: AbortSignal } = {}) => ({
  query: 'tides in Brest',
  limit: 2,
  signal: new AbortController().signal,
  ...part,
});

const page = (number: number, content = `Page ${number}`) => ({
  title: `Title ${number}`,
  url: `https://example.org/${number}`,
  content,
});

test('a search asks for JSON and gives documents, best first, at most as many as wanted', async () => {
  const results = [page(1), page(2, ' '), page(3), page(4)];
  const { server, source } = await sourceOn(() => ({ kind: 'results', results }));
  const query = 'ebb & flow? #1 +läuft';
  const found = await source.search(request({ query }));
  expect(found.documents).toEqual([
    { text: 'Page 1', source: 'web', title: 'Title 1', url: 'https://example.org/1', privacy: 'any' },
    { text: 'Page 3', source: 'web', title: 'Title 3', url: 'https://example.org/3', privacy: 'any' },
  ]);
  expect(found.usage.calls).toBe(1);
  expect(server.asked.map((asked) => Object.fromEntries(asked))).toEqual([{ q: query, format: 'json' }]);
});

test('an instance below a path is asked there', async () => {
  const { server } = await sourceOn();
  const options = { name: 'web', meter: 'tool:web', privacy: 'any' } as const;
  const source = createSearxngSource({ ...options, baseUrl: `${server.url}/searx/` });
  await expect(source.search(request())).rejects.toMatchObject({ kind: 'rejected' });
  expect(server.requests.map(({ path }) => path)).toEqual(['/searx/search']);
});

test('an instance without its JSON format is told by where to switch it on', async () => {
  const { source } = await sourceOn(() => ({ kind: 'status', status: 403 }));
  await expect(source.search(request())).rejects.toMatchObject({
    message: 'The search engine refused: its json format is disabled in settings.yml (status 403).',
    retryable: false,
  });
});

test('a redirect is not followed', async () => {
  const elsewhere = await sourceOn();
  const location = `${elsewhere.server.url}/search?q=x&format=json`;
  const { source } = await sourceOn(() => ({ kind: 'status', status: 302, headers: { location } }));
  await expect(source.search(request())).rejects.toMatchObject({ kind: 'rejected' });
  expect(elsewhere.server.requests).toEqual([]);
});

test('nothing found is no failure, unless the engines behind it failed', async () => {
  const nothing = await sourceOn(() => ({ kind: 'results', results: [] }));
  expect((await nothing.source.search(request())).documents).toEqual([]);
  const blocked = await sourceOn(() => ({ kind: 'results', results: [], unresponsive: [['somewhere', 'CAPTCHA']] }));
  await expect(blocked.source.search(request())).rejects.toMatchObject({ kind: 'unavailable', retryable: true });
});

test.each([
  ['429', { kind: 'status', status: 429 }, 'rate_limited', true],
  ['500', { kind: 'status', status: 500 }, 'unavailable', true],
  ['a web page', { kind: 'raw', body: '<html>' }, 'unavailable', true],
  ['JSON of another shape', { kind: 'raw', body: '{"results": 4}' }, 'unavailable', true],
  ['an answer that breaks off', { kind: 'raw', body: '{"results": [', destroy: true }, 'unavailable', true],
  ['more than is allowed', { kind: 'raw', body: `{"results": [], "x": "${'x'.repeat(20_000)}"}` }, 'unavailable', true],
  ['silence', { kind: 'silence' }, 'unavailable', true],
] as const)('%s is a failure that names no host', async (_name, reply, kind, retryable) => {
  const { source } = await sourceOn(() => reply, { maxResponseBytes: 10_000, timeoutMs: 300 });
  const failure: unknown = await source.search(request()).catch((thrown: unknown) => thrown);
  expect(failure).toMatchObject({ name: 'SearchFailure', kind, retryable });
  expect(String(failure)).not.toMatch(/127\.0\.0\.1|tides/);
});

test('a fired signal is thrown and leaves the instance', async () => {
  const { server, source } = await sourceOn(() => ({ kind: 'silence' }));
  const leaving = new AbortController();
  const search = source.search(request({ signal: leaving.signal }));
  await expect.poll(() => server.requests.length).toBe(1);
  leaving.abort();
  await expect(search).rejects.toMatchObject({ name: 'AbortError' });
  await server.aborted(1);
});

test('a failing instance leads to the next that the limits admit', async () => {
  const broken = await sourceOn(() => ({ kind: 'status', status: 500 }));
  const weaker = await sourceOn(undefined, { name: 'weaker', privacy: 'any' });
  const denied = await sourceOn(undefined, { name: 'denied' });
  const next = await sourceOn(undefined, { name: 'next', meter: 'tool:next' });
  const tool = createSearchTool({
    slot: aSlot({ id: 'search-1', role: 'search' }),
    contract: loadContract('slots-1'),
    sources: [broken, weaker, denied, next].map(({ source }) => source),
  });
  const input = inputOf('tides', { privacy: 'self_hosted', admitsSource: (name) => name !== 'denied' });
  const { outcome } = await executed(tool, input);
  expect(outcome.observation).toMatchObject({ kind: 'documents', documents: [{ source: 'next' }] });
  expect([broken, weaker, denied, next].map(({ server }) => server.requests.length)).toEqual([1, 0, 0, 1]);
  expect(outcome.usage.map(({ meter }) => meter)).toEqual(['tool:web', 'tool:next']);
});
