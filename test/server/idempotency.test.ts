import { connect, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { OrchestraError } from '../../src/errors.ts';
import type { ServerParts } from '../../src/server/parts.ts';
import { type BareServer, keyNamed, relayedModel, startServer } from '../support/bare-server.ts';
import { ask, askChat, errorOf, type Reply, user } from '../support/http.ts';
import { waitUntil } from '../support/loopback/listener.ts';
import { type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';
import { type Script, type ScriptedOrchestrator, scriptedOrchestrator } from '../support/scripted-orchestrator.ts';

let server: BareServer;
/** Requests that the server has read to their end. */
let arrived = 0;
let upstream: OpenAiServer | undefined;
afterEach(async () => {
  await server.close();
  await upstream?.close();
  upstream = undefined;
});

async function start(script: Script = {}, parts: Partial<ServerParts> = {}): Promise<ScriptedOrchestrator> {
  const orchestrator = scriptedOrchestrator(script);
  server = await startServer({ orchestrator, ...parts });
  arrived = 0;
  server.app.server.on('request', (message) => {
    message.once('end', () => {
      arrived += 1;
    });
  });
  return orchestrator;
}

/** A gate that a test opens. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

const keyed = (fields: object = {}, key = 'k-1', headers: Readonly<Record<string, string>> = {}) =>
  askChat(server, fields, { 'idempotency-key': key, ...headers });
const runIdOf = ({ headers }: Reply) => headers['x-orchestra-run-id'];

test('the same request under the same key is answered once, byte for byte', async () => {
  const orchestrator = await start();
  const [first, second] = [await keyed(), await keyed()];
  expect([second.status, second.text, runIdOf(second)]).toEqual([200, first.text, runIdOf(first)]);
  expect(second.headers['x-orchestra-cost-usd']).toBe(first.headers['x-orchestra-cost-usd']);
  expect(second.headers['content-type']).toBe(first.headers['content-type']);
  expect(second.headers['x-request-id']).not.toBe(first.headers['x-request-id']);
  expect(orchestrator.specs).toHaveLength(1);
});

test('a request that comes while the first is at work waits for its answer', async () => {
  const { opened, open } = gate();
  const orchestrator = await start({ before: () => opened });
  const all = [keyed(), keyed(), keyed()];
  await waitUntil(() => arrived === 3, 'all to be read');
  open();
  const replies = await Promise.all(all);
  expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
  expect(orchestrator.specs).toHaveLength(1);
});

test.each<[string, object, Readonly<Record<string, string>>]>([
  ['another body', { seed: 2 }, {}],
  ['other preferences in the header', {}, { 'x-orchestra-preferences': '{"max_turns":1}' }],
  ['a stream of the same', { stream: true }, {}],
])('%s under the same key is 409 conflict', async (_, fields, headers) => {
  const orchestrator = await start();
  await keyed();
  const reply = await keyed(fields, 'k-1', headers);
  expect([reply.status, errorOf(reply)['code'], errorOf(reply)['param']]).toEqual([409, 'conflict', 'idempotency-key']);
  // SDKs would send it again.
  expect(reply.headers['x-should-retry']).toBe('false');
  expect(orchestrator.specs).toHaveLength(1);
});

test('without the header, with an empty one and under another key, each request is a run', async () => {
  const orchestrator = await start();
  await askChat(server);
  await askChat(server);
  for (const key of ['', '', 'k-1', 'k-2']) await keyed({}, key);
  expect(orchestrator.specs).toHaveLength(6);
});

test('a key that is too long is told', async () => {
  await start();
  const reply = await keyed({}, 'k'.repeat(256));
  expect([reply.status, errorOf(reply)['param']]).toEqual([400, 'idempotency-key']);
});

test('two callers may use the same key', async () => {
  const keys = [keyNamed('team-a', 'secret-a'), keyNamed('team-b', 'secret-b')];
  await start({}, { keys });
  const [a, b] = [
    await keyed({}, 'k-1', { 'x-api-key': 'secret-a' }),
    await keyed({ seed: 2 }, 'k-1', { 'x-api-key': 'secret-b' }),
  ];
  expect([a.status, b.status]).toEqual([200, 200]);
  expect(runIdOf(a)).not.toBe(runIdOf(b));
});

test('a key is forgotten ten minutes after its answer', async () => {
  let nowMs = 1_700_000_000_000;
  const orchestrator = await start({}, { now: () => nowMs });
  await keyed();
  nowMs += 599_000;
  await keyed();
  expect(orchestrator.specs).toHaveLength(1);
  nowMs += 2_000;
  expect((await keyed({ seed: 2 })).status).toBe(200);
  expect(orchestrator.specs).toHaveLength(2);
});

test('the answer of a private run is given to who waits for it, and not kept', async () => {
  const { opened, open } = gate();
  const orchestrator = await start({ before: () => opened });
  const fields = { preferences: { privacy: 'zdr' } };
  const waiting = [keyed(fields), keyed(fields)];
  await waitUntil(() => arrived === 2, 'both to be read');
  open();
  const replies = await Promise.all(waiting);
  expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
  expect(runIdOf(await keyed(fields))).not.toBe(runIdOf(replies[0] as Reply)); // Two were asked.
  expect((await keyed({ ...fields, seed: 2 })).status).toBe(409);
  expect(orchestrator.specs).toHaveLength(2);
});

test('a failure is shared with who waits, and the next try is a new one', async () => {
  const { opened, open } = gate();
  let failing = true;
  const orchestrator = await start({
    before: async () => {
      await opened;
      if (failing) throw new OrchestraError('rate_limited', 'Too many.', { retryAfterMs: 1 });
    },
  });
  const waiting = [keyed(), keyed()];
  await waitUntil(() => arrived === 2, 'both to be read');
  open();
  const failed = await Promise.all(waiting);
  expect(failed.map(({ status }) => status)).toEqual([429, 429]);
  expect(orchestrator.specs).toHaveLength(1);
  failing = false;
  expect((await keyed()).status).toBe(200);
});

/** A client under the same key that can leave at any time. */
function askAndKeepTheSocket(): Socket {
  const socket = connect(server.port, '127.0.0.1');
  const body = JSON.stringify({ model: 'orchestra', messages: user('hi') });
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nidempotency-key: k-1\r\ncontent-length: ${body.length}`;
  socket.write(`${head}\r\n\r\n${body}`);
  return socket;
}

test('when the first client leaves, one that waits has the work done for itself', async () => {
  const { opened, open } = gate();
  const orchestrator = await start({ before: () => opened });
  const leaving = askAndKeepTheSocket();
  await waitUntil(() => orchestrator.specs.length === 1, 'the run to begin');
  const second = keyed();
  await waitUntil(() => arrived === 2, 'both to be read');
  leaving.destroy();
  await waitUntil(() => orchestrator.specs[0]?.signal.aborted === true, 'the run to be stopped');
  open();
  expect((await second).status).toBe(200);
  expect(orchestrator.specs).toHaveLength(2);
});

test('of several that wait when the first client leaves, one does the work for all', async () => {
  const { opened, open } = gate();
  const orchestrator = await start({ before: () => opened });
  const leaving = askAndKeepTheSocket();
  await waitUntil(() => orchestrator.specs.length === 1, 'the run to begin');
  const waiting = [keyed(), keyed(), keyed()];
  await waitUntil(() => arrived === 4, 'all to be read');
  leaving.destroy();
  await waitUntil(() => orchestrator.specs[0]?.signal.aborted === true, 'the run to be stopped');
  open();
  const replies = await Promise.all(waiting);
  expect(replies.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
  expect(orchestrator.specs).toHaveLength(2);
});

test('a stream that is still running is not repeated, one that ended is done again', async () => {
  const { opened, open } = gate();
  const orchestrator = await start({ before: () => opened });
  const first = keyed({ stream: true });
  await waitUntil(() => orchestrator.specs.length === 1, 'the run to begin');
  const second = await keyed({ stream: true });
  expect([second.status, errorOf(second)['message']]).toEqual([409, expect.stringContaining('still running')]);
  open();
  expect((await first).text).toContain('[DONE]');
  expect((await keyed({ stream: true })).text).toContain('[DONE]');
  expect(orchestrator.specs).toHaveLength(2);
});

test.each(['/v1/chat/completions', '/v1/embeddings'])('a relay by %s is sent upstream once', async (path) => {
  upstream = await startOpenAiServer();
  server = await startServer({}, { url: upstream.url, models: [relayedModel('m')] });
  const body = { model: 'loopback/m', messages: user('hi'), input: 'hi' };
  const headers = { 'idempotency-key': 'k-1' };
  const [first, second] = [await ask(server, path, { body, headers }), await ask(server, path, { body, headers })];
  expect([first.status, second.text]).toEqual([200, first.text]);
  expect(upstream.requests).toHaveLength(1);
});
