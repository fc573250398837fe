import { createHash } from 'node:crypto';
import { afterEach, expect, test } from 'vitest';
import { type BareServer, keyNamed, startServer } from '../support/bare-server.ts';
import { ask, user } from '../support/http.ts';
import { type ScriptedOrchestrator, scriptedOrchestrator } from '../support/scripted-orchestrator.ts';

let server: BareServer | undefined;
afterEach(async () => server?.close());
const start = async (parts = {}) => {
  server = await startServer(parts);
  return server;
};

test('the front page says what this is and shows a request to copy, to people and programs', async () => {
  const gateway = await start();
  const json = await ask(gateway, '/');
  expect(json.json()).toMatchObject({
    name: 'Orchestra',
    documentation: '/docs',
    try: expect.stringMatching(/^curl http/),
  });
  const html = await ask(gateway, '/', { headers: { accept: 'text/html,*/*' } });
  expect(html.headers['content-type']).toBe('text/html; charset=utf-8');
  expect(html.text).toContain('/v1/chat/completions');
  expect(html.text).not.toContain('`');
});

test('the front page says whether this is ready, who decides and what needs a key', async () => {
  const readiness = () => ({ ready: false, notes: ['`answer-2` is out: <img src=x> & more'] });
  const page = async (parts = {}) => {
    const gateway = await start({ readiness, policy: () => 'our-policy', ...parts });
    const { text } = await ask(gateway, '/', { headers: { accept: 'text/html' } });
    await gateway.close();
    return text;
  };
  const open = await page();
  for (const told of ['not ready', 'our-policy', 'orchestra:cheap', '/v1/models']) expect(open).toContain(told);
  expect(open).toContain('<code>answer-2</code> is out: &lt;img src=x&gt; &amp; more');
  expect(open).not.toContain('authorization');
  const guarded = await page({ keys: [keyNamed('one', 'secret')] });
  expect(guarded).toContain('authorization: Bearer');
  for (const hidden of ['href="/v1/', 'orchestra:cheap']) expect(guarded).not.toContain(hidden);
});

test('the front page may load and run nothing, and its one style is the one that its policy names', async () => {
  const { headers, text } = await ask(await start(), '/', { headers: { accept: 'text/html' } });
  const style = /<style>(.*)<\/style>/s.exec(text)?.[1] ?? '';
  const digest = createHash('sha256').update(style).digest('base64');
  expect(headers['content-security-policy']).toBe(
    `default-src 'none'; style-src 'sha256-${digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  );
  expect(text).not.toMatch(/<script| style=| on[a-z]+=|https?:\/\/(?!127\.0\.0\.1)/);
});

test('behind a proxy that ends TLS the examples say https', async () => {
  const headers = { accept: 'text/html', host: 'llm.example', 'x-forwarded-proto': 'https' };
  expect((await ask(await start(), '/', { headers })).text).toContain('https://llm.example/v1');
});

test('a host name with markup in it is not repeated', async () => {
  const reply = await ask(await start(), '/', { headers: { accept: 'text/html', host: '<script>x</script>' } });
  expect(reply.text).not.toContain('<script>');
});

test('the documentation is an OpenAPI 3.1 document with examples and every endpoint', async () => {
  const gateway = await start();
  expect((await ask(gateway, '/docs')).headers['content-type']).toContain('text/html');
  const document = (await ask(gateway, '/docs/json')).json();
  expect(document).toMatchObject({
    openapi: '3.1.0',
    paths: {
      '/v1/chat/completions': {
        post: { requestBody: { content: { 'application/json': { schema: { required: ['model', 'messages'] } } } } },
      },
    },
  });
  expect(Object.keys(document['paths'] as object).sort()).toEqual([
    '/',
    '/health',
    '/healthz',
    '/readyz',
    '/v1/chat/completions',
    '/v1/completions',
    '/v1/embeddings',
    '/v1/models',
    '/v1/models/{*}',
    '/v1/orchestra/decide',
    '/v1/orchestra/runs',
    '/v1/orchestra/runs/{id}',
    '/v1/orchestra/runs/{id}/cancel',
    '/v1/orchestra/runs/{id}/feedback',
    '/v1/orchestra/slots',
    '/v1/orchestra/usage',
  ]);
  expect(JSON.stringify(document)).toContain('max_cost_usd');
  expect(JSON.stringify(document)).toContain('What is 17 * 23?');
});

test('readiness is told with its reasons', async () => {
  const gateway = await start({ readiness: () => ({ ready: false, notes: ['The policy weights are missing.'] }) });
  expect((await ask(gateway, '/healthz')).status).toBe(200);
  const reply = await ask(gateway, '/readyz');
  expect([reply.status, reply.json()]).toEqual([
    503,
    { status: 'not ready', notes: ['The policy weights are missing.'] },
  ]);
});

test('slots are listed with price, class and health', async () => {
  const gateway = await start({ slotHealth: () => 'recovering' });
  expect((await ask(gateway, '/v1/orchestra/slots')).json()).toMatchObject({
    object: 'list',
    data: [{ id: 'answer-1', privacy: 'any', pricing: { output_per_million: 2 }, health: 'recovering' }],
  });
});

test('a dry run asks the loop to decide and nothing more', async () => {
  const orchestrator: ScriptedOrchestrator = scriptedOrchestrator();
  const gateway = await start({ orchestrator });
  const fields = { preferences: { max_turns: 2 }, provider: { order: ['a'] } };
  const body = { model: 'orchestra:cheap', messages: user('hi'), ...fields };
  const reply = await ask(gateway, '/v1/orchestra/decide', { body });
  expect(reply.json()).toMatchObject({
    object: 'orchestra.decision',
    role: 'answer',
    slot: 'answer-1',
    preferences: { optimize: 'cheap', max_turns: 2 },
    limits_applied: [],
    warnings: [{ code: 'ignored_field' }],
  });
  expect(orchestrator.specs).toHaveLength(1);
});
