import { afterEach, describe, expect, test } from 'vitest';
import { type BareServer, keyNamed, startServer } from '../support/bare-server.ts';
import { ask, askChat, errorOf } from '../support/http.ts';
import { scriptedOrchestrator } from '../support/scripted-orchestrator.ts';

let server: BareServer | undefined;
afterEach(async () => server?.close());

const keys = [
  keyNamed('team-a', 'secret-a', { max_cost_usd: 0.5, max_cost_usd_per_day: 1 }),
  keyNamed('team-b', 'secret-b'),
];

test.each([
  { authorization: 'Bearer secret-a' },
  { authorization: 'bearer   secret-a  ' },
  { 'x-api-key': 'secret-a' },
  { 'api-key': ' secret-a' },
  { authorization: 'Bearer secret-a', 'api-key': 'secret-a' },
  { authorization: 'Bearer ', 'x-api-key': 'secret-a' },
])('A01 a key is accepted as %o', async (headers) => {
  const orchestrator = scriptedOrchestrator();
  server = await startServer({ keys, orchestrator });
  expect((await askChat(server, {}, headers)).status).toBe(200);
  expect(orchestrator.specs[0]).toMatchObject({ keyName: 'team-a' });
  expect(orchestrator.specs[0]?.preferences.limits).toMatchObject({ maxCost: 5e8, maxCostPerDay: 1e9 });
});

test.each<Record<string, string>>([
  {},
  { authorization: 'Bearer ' },
  { authorization: 'Bearer x' },
  { 'x-api-key': '' },
])('A02 without configured keys, %o is accepted', async (headers) => {
  server = await startServer();
  expect((await askChat(server, {}, headers)).status).toBe(200);
});

test.each<Record<string, string>>([
  {},
  { authorization: 'Bearer wrong' },
  { authorization: 'Basic c2VjcmV0LWE=' },
  { 'x-api-key': 'secret-a-and-more' },
])('A03 %o is 401 before the body is looked at', async (headers) => {
  server = await startServer({ keys });
  const reply = await ask(server, '/v1/chat/completions', { body: '{broken', headers });
  expect([reply.status, reply.headers['www-authenticate']]).toEqual([401, 'Bearer']);
  expect(errorOf(reply)).toMatchObject({ type: 'authentication_error', code: 'invalid_api_key', param: null });
  expect(reply.text).not.toContain('wrong');
});

test('A03 every route of the API is guarded, the front is not', async () => {
  server = await startServer({ keys });
  const statuses = async (paths: string[]) =>
    Promise.all(paths.map(async (path) => server && (await ask(server, path)).status));
  expect(await statuses(['/v1/models', '/v1/models/orchestra', '/v1/orchestra/slots', '/v1/orchestra/runs/x'])).toEqual(
    [401, 401, 401, 401],
  );
  expect(await statuses(['/', '/healthz', '/readyz', '/docs', '/docs/json'])).toEqual([200, 200, 200, 200, 200]);
});

test('A04 OpenAI and SDK headers are ignored', async () => {
  server = await startServer({ keys });
  const headers = {
    authorization: 'Bearer secret-b',
    'openai-organization': 'org',
    'openai-project': 'p',
    'openai-beta': 'assistants=v2',
    'x-stainless-retry-count': '1',
  };
  expect((await askChat(server, {}, headers)).status).toBe(200);
});

describe('without keys', () => {
  test.each([
    ['https://evil.example', '127.0.0.1:8080'],
    ['http://evil.example', 'evil.example'],
    ['http://127.0.0.1.evil.example', '127.0.0.1:8080'],
    ['http://6.6.6.6', '127.0.0.1:8080'],
    ['null', '127.0.0.1:8080'],
  ])('a page from %s is refused, and can read why', async (origin, host) => {
    const orchestrator = scriptedOrchestrator();
    server = await startServer({ orchestrator });
    const reply = await askChat(server, {}, { origin, host, 'content-type': 'text/plain' });
    expect([reply.status, errorOf(reply)['code']]).toEqual([403, 'forbidden']);
    expect(reply.headers['access-control-allow-origin']).toBe(origin);
    expect(orchestrator.specs).toEqual([]);
  });

  test.each([
    ['http://localhost:3000', '127.0.0.1:8080'],
    ['http://[::1]:3000', '127.0.0.1:8080'],
    ['http://10.1.2.3:8080', '10.1.2.3:8080'],
    ['app://obsidian.md', '127.0.0.1:8080'],
  ])('a page from %s is served', async (origin, host) => {
    server = await startServer();
    expect((await askChat(server, {}, { origin, host })).status).toBe(200);
  });
});

describe('without keys, what was done before', () => {
  const read = (host: string, path = '/v1/orchestra/runs') => {
    if (!server) throw new Error('start first');
    return ask(server, path, { headers: { host } });
  };

  test('is not read under a name that a stranger can have', async () => {
    server = await startServer();
    for (const path of ['/v1/orchestra/runs', '/v1/orchestra/runs/run_1', '/orchestra/usage']) {
      const reply = await read('evil.example:8080', path);
      expect([path, reply.status, errorOf(reply)['code']]).toEqual([path, 403, 'forbidden']);
    }
    expect((await read('evil.example:8080', '/v1/models')).status).toBe(200);
  });

  test.each(['127.0.0.1:8080', '[::1]:8080', 'localhost', '10.1.2.3', 'gpu-box:8080', 'box.lan', 'orchestra.internal'])(
    'is read at %s',
    async (host) => {
      server = await startServer();
      expect((await read(host)).status).toBe(200);
    },
  );

  test('is read under any name with a key', async () => {
    server = await startServer({ keys });
    const headers = { host: 'api.example', authorization: 'Bearer secret-a' };
    expect((await ask(server, '/v1/orchestra/runs', { headers })).status).toBe(200);
  });
});

test('with keys, a page from anywhere may use one', async () => {
  server = await startServer({ keys });
  const headers = { origin: 'https://app.example', authorization: 'Bearer secret-a' };
  expect((await askChat(server, {}, headers)).status).toBe(200);
});
