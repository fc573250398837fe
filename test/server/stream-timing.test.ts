import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { OrchestraError } from '../../src/errors.ts';
import type { RunSpec } from '../../src/router/run.ts';
import { defaultLimits, defaultTimings, type ServerParts } from '../../src/server/parts.ts';
import { type BareServer, startServer } from '../support/bare-server.ts';
import { ask, askChat, type Chunk, chunksOf, errorOf, user } from '../support/http.ts';
import { waitUntil } from '../support/loopback/listener.ts';
import { type Script, says, scriptedOrchestrator } from '../support/scripted-orchestrator.ts';

let server: BareServer | undefined;
afterEach(async () => server?.close());

const quick = { keepAliveMs: 30, openAfterMs: 40, unreadMs: 5_000, drainMs: 60 };

/** More than any socket buffers. */
const flood = says(...Array.from({ length: 2_000 }, () => 'x'.repeat(8_192)));
const start = async (script: Script, parts: Partial<ServerParts> = {}) => {
  server = await startServer({ orchestrator: scriptedOrchestrator(script), timings: quick, ...parts });
  return server;
};

/** A gate that a test opens. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** Waits like a real loop does: until its time has come or nobody wants it any more. */
const untilStopped = ({ signal }: RunSpec) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });

const errorChunks = (chunks: readonly Chunk[]) => chunks.filter((chunk) => 'error' in chunk);

test('H18 silence opens the stream with the role chunk, then comments keep it alive', async () => {
  const { opened, open } = gate();
  const gateway = await start({ before: () => opened });
  const socket = rawPost(gateway, { stream: true });
  await waitUntil(() => socket.text().split(': keep-alive\n\n').length > 3, 'three comments');
  expect(socket.text()).toContain('"delta":{"role":"assistant","content":""}');
  open();
  await socket.closed;
  const [, body = ''] = unchunked(socket.text());
  expect(chunksOf(body).filter(({ choices }) => choices[0]?.delta['role'])).toHaveLength(1);
});

test('S12 comments come between events and never as data', async () => {
  const gateway = await start({ between: () => sleep(80), events: says('a', 'b') });
  const { text } = await askChat(gateway, { stream: true });
  expect(text).toContain('\n\n: keep-alive\n\n');
  expect(text).not.toMatch(/^data:\s*$/m);
  expect(text).not.toMatch(/^(?:id|event|retry):/m);
  expect(chunksOf(text).length).toBe(4);
});

test('a failure before the first byte has its status, streamed or not', async () => {
  const before = () => {
    throw new OrchestraError('limits_unsatisfiable', 'Nobody is left.', { param: 'preferences.privacy' });
  };
  const gateway = await start({ before }, { timings: defaultTimings });
  for (const stream of [true, false]) {
    const reply = await askChat(gateway, { stream });
    expect([reply.status, errorOf(reply)['param']]).toEqual([422, 'preferences.privacy']);
  }
});

const failed = { error: { code: 'upstream_failed' as const, message: 'The answer broke off.' } };

test('S14 a failure after the first byte is one event that holds only the error, then [DONE]', async () => {
  const gateway = await start({ events: says('Hel'), record: failed });
  const reply = await askChat(gateway, { stream: true });
  expect(reply.status).toBe(200);
  const chunks = chunksOf(reply.text);
  expect(errorChunks(chunks)).toEqual([chunks.at(-1)]);
  expect(chunks.at(-1)).toEqual({
    error: {
      message: `The answer broke off. (${reply.headers['x-orchestra-run-id']})`,
      type: 'server_error',
      param: null,
      code: 'upstream_failed',
    },
  });
  expect(chunks.flatMap(({ choices }) => choices ?? []).every(({ finish_reason }) => finish_reason === null)).toBe(
    true,
  );
});

test('a failure after money was spent is not to be retried', async () => {
  const busy = { error: { code: 'rate_limited' as const, message: 'All are busy.', retryAfterMs: 2_500 } };
  const reply = await askChat(await start({ events: [], record: busy }));
  expect(reply.status).toBe(429);
  expect(reply.headers).toMatchObject({ 'x-should-retry': 'false', 'retry-after': '3', 'retry-after-ms': '2500' });
});

test('S19 a client that does not read stops the run, which goes on when it reads again', async () => {
  let told = 0;
  const gateway = await start({
    events: flood,
    between: () => {
      told += 1;
    },
  });
  const socket = rawPost(gateway, { stream: true });
  await waitUntil(() => told > 1, 'the first text');
  socket.pause();
  let before = -1;
  await waitUntil(() => {
    const stuck = told === before && told < flood.length;
    before = told;
    return stuck;
  }, 'the run to stop');
  expect(told).toBeLessThan(flood.length);
  socket.resume();
  await socket.closed;
  expect(told).toBe(flood.length);
});

test('S19 a client that never reads on is cut off, and its run ends', async () => {
  const { opened: ended, open: end } = gate();
  let told = 0;
  const between = ({ signal }: RunSpec) => {
    told += 1;
    signal.addEventListener('abort', end, { once: true });
  };
  const gateway = await start({ events: flood, between }, { timings: { ...defaultTimings, unreadMs: 50 } });
  const socket = rawPost(gateway, { stream: true });
  await waitUntil(() => told > 1, 'the first text');
  socket.pause();
  await ended;
  socket.destroy();
  expect(told).toBeLessThan(flood.length);
});

test('shutdown does not wait for a client that never reads', async () => {
  let told = 0;
  const between = () => {
    told += 1;
  };
  const gateway = await start({ events: flood, between });
  const socket = rawPost(gateway, { stream: true });
  await waitUntil(() => told > 1, 'the first text');
  socket.pause();
  await gateway.close();
  socket.destroy();
  expect(told).toBeLessThan(flood.length);
});

test.each([true, false])(
  'S20 a client that leaves stops the run at once and is logged as 499 (stream: %s)',
  async (stream) => {
    const lines: string[] = [];
    const log = new Writable({
      write: (line, _, done) => {
        lines.push(String(line));
        done();
      },
    });
    const stopped = gate();
    const between = async (spec: RunSpec, index: number) => {
      if (index === 0) return;
      await untilStopped(spec);
      stopped.open();
    };
    const gateway = await start({ events: says('a', 'b', 'c'), between }, { logger: { stream: log, level: 'info' } });
    const socket = rawPost(gateway, { stream });
    await (stream ? waitUntil(() => socket.text().includes('"a"'), 'the first text') : sleep(30));
    socket.destroy();
    await stopped.opened;
    await waitUntil(() => lines.some((line) => line.includes('"statusCode":499')), 'the log line');
  },
);

test('a run can be cancelled by its key, and by no other', async () => {
  const gateway = await start({
    between: (_, index) => (index === 0 ? undefined : untilStopped(_)),
    events: says('a', 'b'),
  });
  const socket = rawPost(gateway, { stream: true });
  await waitUntil(() => socket.text().includes('"a"'), 'the first text');
  const runId = /x-orchestra-run-id: (\S+)/.exec(socket.text())?.[1] ?? '';
  expect((await ask(gateway, '/v1/orchestra/runs/run_other/cancel', { method: 'POST' })).status).toBe(404);
  expect((await ask(gateway, `/v1/orchestra/runs/${runId}/cancel`, { method: 'POST' })).status).toBe(200);
  await socket.closed;
  const [, body = ''] = unchunked(socket.text());
  expect(chunksOf(body).at(-1)?.error).toMatchObject({ code: 'cancelled' });
});

test('more runs than the limit are 429 with a time to wait, and room comes back', async () => {
  const { opened, open } = gate();
  const gateway = await start(
    { before: () => opened },
    { limits: { ...defaultLimits, runs: 1 }, timings: defaultTimings },
  );
  const first = askChat(gateway);
  await waitUntil(
    () => (gateway.parts.orchestrator as ReturnType<typeof scriptedOrchestrator>).specs.length === 1,
    'the run',
  );
  const second = await askChat(gateway);
  expect(second.status).toBe(429);
  expect(second.headers).toMatchObject({ 'retry-after': '1', 'retry-after-ms': '1000' });
  expect(errorOf(second)).toMatchObject({ code: 'rate_limit_exceeded', type: 'rate_limit_error' });
  open();
  expect((await first).status).toBe(200);
  expect((await askChat(gateway)).status).toBe(200);
});

test('shutdown lets a stream finish within the time to drain', async () => {
  const { opened, open } = gate();
  const gateway = await start(
    { between: (_, index) => (index === 0 ? undefined : opened), events: says('a', 'b') },
    { timings: defaultTimings },
  );
  const socket = rawPost(gateway, { stream: true });
  await waitUntil(() => socket.text().includes('"a"'), 'the first text');
  const closed = gateway.close();
  open();
  await Promise.all([closed, socket.closed]);
  expect(chunksOf(unchunked(socket.text())[1] ?? '').at(-1)?.choices[0]?.finish_reason).toBe('stop');
});

test('shutdown turns away a request that is still arriving', async () => {
  const gateway = await start({});
  const socket = connect(gateway.port, '127.0.0.1');
  let text = '';
  socket.on('data', (piece) => {
    text += String(piece);
  });
  const connected = once(gateway.app.server, 'connection');
  socket.write('GET /v1/models HTTP/1.1\r\nhost: x\r\n');
  await connected;
  await sleep(20);
  const closed = gateway.close();
  await waitUntil(() => !gateway.app.server.listening, 'the server to stop listening');
  socket.write('\r\n');
  await Promise.all([closed, once(socket, 'close')]);
  expect(text).toMatch(/^HTTP\/1.1 503 /);
  expect(text).toContain('"message":"The gateway is shutting down."');
});

test('shutdown ends what does not finish in time with an error event, not a cut', async () => {
  const gateway = await start({
    between: (_, index) => (index === 0 ? undefined : untilStopped(_)),
    events: says('a', 'b'),
  });
  const socket = rawPost(gateway, { stream: true });
  await waitUntil(() => socket.text().includes('"a"'), 'the first text');
  const whole = askChat(gateway, {}, { connection: 'close' });
  await waitUntil(
    () => (gateway.parts.orchestrator as ReturnType<typeof scriptedOrchestrator>).specs.length === 2,
    'the run',
  );
  await gateway.close();
  await socket.closed;
  expect(chunksOf(unchunked(socket.text())[1] ?? '').at(-1)?.error).toMatchObject({ code: 'policy_unavailable' });
  expect((await whole).status).toBe(503);
  await expect(ask(gateway, '/healthz')).rejects.toThrow();
});

/** A chat over a bare socket, so that a test sees every byte and decides when to read. */
function rawPost({ port }: BareServer, fields: object) {
  const socket: Socket = connect(port, '127.0.0.1');
  const body = JSON.stringify({ model: 'orchestra', messages: user('hi'), ...fields });
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: ${body.length}`;
  socket.write(`${head}\r\n\r\n${body}`);
  const pieces: Buffer[] = [];
  socket.on('data', (piece: Buffer) => pieces.push(piece));
  return {
    text: () => Buffer.concat(pieces).toString('utf8'),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    destroy: () => socket.destroy(),
    closed: once(socket, 'close'),
  };
}

/** Head and body of a response with chunked transfer encoding. */
function unchunked(response: string): [string, string] {
  const at = response.indexOf('\r\n\r\n');
  const bytes = Buffer.from(response.slice(at + 4));
  const parts: Buffer[] = [];
  for (let from = 0; ; ) {
    const lineEnd = bytes.indexOf('\r\n', from);
    const size = Number.parseInt(bytes.subarray(from, lineEnd).toString(), 16);
    if (!(size > 0)) return [response.slice(0, at), Buffer.concat(parts).toString('utf8')];
    parts.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    from = lineEnd + 2 + size + 2;
  }
}
