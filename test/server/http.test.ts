import { once } from 'node:events';
import { connect } from 'node:net';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultLimits } from '../../src/server/parts.ts';
import { type BareServer, relayedModel, startServer } from '../support/bare-server.ts';
import { ask, askChat, errorOf, user } from '../support/http.ts';
import { type ScriptedOrchestrator, scriptedOrchestrator } from '../support/scripted-orchestrator.ts';
import { zstdFrame, zstdFrameOfWindow } from '../support/zstd.ts';

let gateway: BareServer;
let orchestrator: ScriptedOrchestrator;
const bodyBytes = 40 * 1024 * 1024;
const odd = 'a b:c/d';
beforeAll(async () => {
  orchestrator = scriptedOrchestrator();
  const models = [relayedModel('m'), relayedModel(odd), relayedModel('x'.repeat(500))];
  gateway = await startServer(
    { orchestrator, limits: { ...defaultLimits, bodyBytes, runs: 8 } },
    { url: 'http://127.0.0.1:9/v1', models },
  );
});
afterAll(() => gateway.close());

const chat = { model: 'orchestra', messages: user('hi') };
const json = JSON.stringify(chat);

const posted = (body: string | Uint8Array, headers: Readonly<Record<string, string>> = {}) =>
  ask(gateway, '/v1/chat/completions', { body, headers });
const status = async (reply: Promise<{ status: number }>) => (await reply).status;

test.each(['/v1/models', '/models', '/v1/v1/models', '//v1//models', '/v1/models/', '/models//?client_version=1'])(
  'H01 %s lists the models',
  async (path) => {
    expect((await ask(gateway, path)).json()).toMatchObject({ object: 'list' });
  },
);

test.each(['/chat/completions', '/v1/v1/chat/completions/', '//v1/chat//completions'])(
  'H01 %s answers a chat',
  async (path) => {
    expect(await status(ask(gateway, path, { body: chat }))).toBe(200);
  },
);

const envelope = { message: expect.any(String), type: 'invalid_request_error', param: null };

test('H02 an unknown route is 404 in the envelope', async () => {
  const reply = await ask(gateway, '/v1/nothing/here');
  expect(reply.status).toBe(404);
  expect(errorOf(reply)).toEqual({ ...envelope, code: 'not_found' });
});

test.each([
  ['GET', '/v1/chat/completions', 'POST'],
  ['POST', '/v1/models', 'GET'],
  ['DELETE', '/v1/models/orchestra', 'GET'],
  ['PUT', '/healthz', 'GET'],
])('H03 %s %s is 405, enveloped, and Allow names %s', async (method, path, allowed) => {
  const reply = await ask(gateway, path, { method });
  expect(reply.status).toBe(405);
  expect(reply.headers['allow']).toContain(allowed);
  expect(errorOf(reply)).toEqual({ ...envelope, code: 'method_not_allowed' });
});

test.each([
  ['raw', 'loopback/m', 'loopback/m'],
  ['encoded slash', 'loopback%2Fm', 'loopback/m'],
  ['spaces, colons and two slashes', `loopback/${encodeURIComponent(odd)}`, `loopback/${odd}`],
  ['500 characters', `loopback/${'x'.repeat(500)}`, `loopback/${'x'.repeat(500)}`],
])('H04 a model id is found: %s', async (_, path, id) => {
  expect((await ask(gateway, `/v1/models/${path}`)).json()).toMatchObject({ id, object: 'model' });
});

test('H04 an id too long for the router is 414, enveloped', async () => {
  const reply = await ask(gateway, `/v1/orchestra/runs/${'x'.repeat(3000)}`);
  expect(reply.status).toBe(414);
  expect(errorOf(reply)).toEqual({ ...envelope, code: 'invalid_request' });
});

test('H04 a path that does not decode is 400, enveloped', async () => {
  const reply = await ask(gateway, '/v1/models/%zz');
  expect(reply.status).toBe(400);
  expect(errorOf(reply)).toMatchObject({ code: 'invalid_request' });
});

test('H05 a body of 33 MiB is accepted and a larger one than the limit is 413, enveloped', async () => {
  const image = (mebibytes: number) => ({
    ...chat,
    extra: 'A'.repeat(mebibytes * 1024 * 1024),
  });
  expect(await status(ask(gateway, '/v1/chat/completions', { body: image(33) }))).toBe(200);
  const reply = await ask(gateway, '/v1/chat/completions', { body: image(41) });
  expect(reply.status).toBe(413);
  expect(errorOf(reply)).toMatchObject({ code: 'payload_too_large' });
});

test.each([
  'application/json; charset=utf-8',
  'application/x-www-form-urlencoded',
  'text/plain',
  'multipart/form-data',
  'nonsense',
  ';;;',
])('H06 JSON is read under content type %s', async (type) => {
  expect(await status(posted(json, { 'content-type': type }))).toBe(200);
});

test('H06 JSON is read without a content type, and with a byte order mark', async () => {
  expect(await status(posted(json))).toBe(200);
  expect(await status(posted(`\ufeff${json}`))).toBe(200);
});

test('H07 keys called __proto__ and constructor harm nothing', async () => {
  const body =
    '{"model":"orchestra","messages":[{"role":"user","content":"hi","__proto__":{"x":1}}],"constructor":{"prototype":{"y":1}}}';
  expect(await status(posted(body))).toBe(200);
  expect(await status(posted(body.replace('__proto__', '\\u005f_proto__')))).toBe(200);
  const message = orchestrator.specs.at(-1)?.messages[0] ?? {};
  expect([Object.keys(message), Object.getPrototypeOf(message)]).toEqual([['role', 'content'], Object.prototype]);
});

const bytes = Buffer.from(json);
test.each<[string, Uint8Array]>([
  ['identity', bytes],
  ['gzip', gzipSync(bytes)],
  ['x-gzip', gzipSync(bytes)],
  ['GZIP', gzipSync(bytes)],
  ['deflate', deflateSync(bytes)],
  ['deflate', deflateRawSync(bytes)],
  ['br', brotliCompressSync(bytes)],
  ['zstd', zstdFrame(bytes)],
  ['gzip, br', brotliCompressSync(gzipSync(bytes))],
])('H08 a body in %s is decoded', async (encoding, body) => {
  expect(await status(posted(body, { 'content-encoding': encoding }))).toBe(200);
});

const huge = Buffer.alloc(bodyBytes + 1, 0x20);
test.each<[string, Uint8Array]>([
  ['gzip', gzipSync(huge)],
  ['deflate', deflateSync(huge)],
  ['br', brotliCompressSync(huge)],
  ['zstd', zstdFrameOfWindow(2 ** 30)],
])('H08 a %s bomb is 413', async (encoding, body) => {
  const reply = await posted(body, { 'content-encoding': encoding });
  expect(reply.status).toBe(413);
  expect(errorOf(reply)).toMatchObject({ code: 'payload_too_large' });
});

test.each(['gzip', 'deflate', 'br', 'zstd'])('H08 a broken %s body is 400', async (encoding) => {
  const reply = await posted('\x08\x1dnot compressed at all', { 'content-encoding': encoding });
  expect(reply.status).toBe(400);
  expect(errorOf(reply)).toMatchObject({ code: 'invalid_request' });
});

test('H08 an unknown encoding is 415', async () => {
  const reply = await posted(json, { 'content-encoding': 'compress' });
  expect(reply.status).toBe(415);
  expect(errorOf(reply)).toMatchObject({ code: 'unsupported_media_type' });
});

test.each([
  ['{"model": b}', 'position 10'],
  ['{"model": "orchestra", }', 'position 23'],
  ['{"model": "orc', 'too early'],
  ['[1 2]', 'position 3'],
])('1.11 broken JSON %s is 400 and says where: %s', async (body, where) => {
  const reply = await posted(body);
  expect(reply.status).toBe(400);
  expect(errorOf(reply)['message']).toContain(where);
});

test('H09 a stream is not compressed, whatever the client offers', async () => {
  const reply = await askChat(gateway, { stream: true }, { 'accept-encoding': 'gzip, br, zstd' });
  expect(reply.headers['content-encoding']).toBeUndefined();
  expect(reply.text).toContain('data: [DONE]');
});

test('H10 the Accept header decides nothing', async () => {
  const streamed = await askChat(gateway, { stream: true }, { accept: 'application/json' });
  expect(streamed.headers['content-type']).toBe('text/event-stream; charset=utf-8');
  const whole = await askChat(gateway, {}, { accept: 'text/event-stream' });
  expect(whole.headers['content-type']).toBe('application/json; charset=utf-8');
});

test('H11 a stream has the headers that keep proxies from buffering it', async () => {
  const { status: code, headers } = await askChat(gateway, { stream: true });
  expect(code).toBe(200);
  expect(headers).toMatchObject({
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  });
  expect(headers['content-length']).toBeUndefined();
});

test('H12 a whole answer is JSON with its length', async () => {
  const { headers, text } = await askChat(gateway);
  expect(headers['content-type']).toBe('application/json; charset=utf-8');
  expect(Number(headers['content-length'])).toBe(Buffer.byteLength(text));
});

test.each([
  ['an answer', '/v1/chat/completions', chat],
  ['a stream', '/v1/chat/completions', { ...chat, stream: true }],
  ['an error', '/v1/chat/completions', {}],
  ['an unknown route', '/nothing', {}],
  ['an over-long path', `/v1/orchestra/runs/${'x'.repeat(3000)}`, undefined],
])('H13 %s carries a request id of its own', async (_, path, body) => {
  const options = body === undefined ? {} : { body };
  const first = await ask(gateway, path, options);
  const second = await ask(gateway, path, { ...options, headers: { 'x-client-request-id': 'mine' } });
  expect(first.headers['x-request-id']).toMatch(/^req_\w{24,}$/);
  expect(second.headers['x-request-id']).not.toBe(first.headers['x-request-id']);
});

test.each(['/', '/v1/models', '/health', '/healthz', '/readyz', '/docs'])(
  'H14 HEAD %s is 200 without a body',
  async (path) => {
    const reply = await ask(gateway, path, { method: 'HEAD' });
    expect([reply.status, reply.text]).toEqual([200, '']);
  },
);

test.each(['/v1/chat/completions', '/v1/models', '/nothing'])(
  'H15 OPTIONS %s reflects what the browser asks',
  async (path) => {
    const headers = {
      origin: 'https://app.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization, x-stainless-os, x-new-tomorrow',
    };
    const reply = await ask(gateway, path, { method: 'OPTIONS', headers });
    expect([reply.status, reply.text]).toEqual([204, '']);
    expect(reply.headers).toMatchObject({
      'access-control-allow-origin': 'https://app.example',
      'access-control-allow-headers': headers['access-control-request-headers'],
      'access-control-allow-methods': 'GET, POST, DELETE, HEAD, OPTIONS',
      'access-control-max-age': expect.stringMatching(/^\d+$/),
    });
  },
);

test.each([
  ['an error', '/v1/chat/completions', {}],
  ['an unknown route', '/nothing', {}],
  ['a stream', '/v1/chat/completions', { ...chat, stream: true }],
])('H16 %s has the CORS headers', async (_, path, body) => {
  const { headers } = await ask(gateway, path, { body, headers: { origin: 'http://localhost:3000' } });
  expect(headers['access-control-allow-origin']).toBe('http://localhost:3000');
  expect(headers['access-control-expose-headers']).toContain('retry-after-ms');
});

test('H17 the connection is kept longer than proxies keep theirs, and answers have no time limit', async () => {
  const { headers } = await ask(gateway, '/healthz');
  const seconds = Number(/timeout=(\d+)/.exec(String(headers['keep-alive']))?.[1]);
  expect(seconds).toBeGreaterThan(600);
  expect(gateway.app.server.timeout).toBe(0);
});

test('bytes that are no HTTP get an enveloped 400', async () => {
  const socket = connect(gateway.port, '127.0.0.1');
  socket.end('NONSENSE\r\n\r\n');
  let text = '';
  socket.on('data', (data) => {
    text += String(data);
  });
  await once(socket, 'close');
  const [head = '', body = ''] = text.split('\r\n\r\n');
  expect(head).toMatch(/^HTTP\/1.1 400 /);
  expect(JSON.parse(body)).toMatchObject({ error: { type: 'invalid_request_error', param: null } });
});
