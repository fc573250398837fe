import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { findModel } from '../../../src/inference/downloads/catalog.ts';
import type { PullProgress } from '../../../src/inference/downloads/source.ts';
import type { Answer } from '../../support/loopback/listener.ts';
import {
  hashOf,
  hubEntry,
  inTurn,
  pullFrom,
  serve,
  startHub,
  status,
  temporaryFolder,
  watchArrival,
  weights,
  weightsPath,
} from './hub.ts';

const otherWeights = Buffer.from(weights.map((byte) => 255 - byte));
const unhashed = { ...hubEntry, sha256: null };

test('a pull puts the checked file in place and its hash beside it', async () => {
  const folder = temporaryFolder();
  const hub = await startHub(serve());
  const seen: number[] = [];
  const pulled = await pullFrom(hub, folder, { onProgress: ({ receivedBytes }) => seen.push(receivedBytes) });
  expect(pulled).toEqual({ path: join(folder, 'tiny.gguf'), sha256: hashOf(weights), alreadyThere: false });
  expect(readFileSync(pulled.path).equals(weights)).toBe(true);
  expect(readFileSync(`${pulled.path}.sha256`, 'utf8').trim()).toBe(hashOf(weights));
  expect(readdirSync(folder).sort()).toEqual(['tiny.gguf', 'tiny.gguf.sha256']);
  expect(hub.requests.map(({ path }) => path)).toEqual([weightsPath]);
  expect(seen.at(-1)).toBe(weights.length);
  expect(await findModel('tiny', folder, [hubEntry])).toMatchObject({ path: pulled.path, present: true });
});

test('a file that is there already is checked and not fetched again', async () => {
  const folder = temporaryFolder();
  const hub = await startHub(status(500));
  writeFileSync(join(folder, 'tiny.gguf'), weights);
  expect(await pullFrom(hub, folder)).toMatchObject({ alreadyThere: true, sha256: hashOf(weights) });
  expect(hub.requests).toEqual([]);
});

test('a damaged file of the right size is replaced', async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, 'tiny.gguf'), otherWeights);
  expect(await pullFrom(await startHub(serve()), folder)).toMatchObject({ alreadyThere: false });
  expect(readFileSync(join(folder, 'tiny.gguf')).equals(weights)).toBe(true);
});

test('a connection that is cut is taken up where it ended, in the same pull', async () => {
  const folder = temporaryFolder();
  const arrival = watchArrival();
  const hub = await startHub(inTurn(serve({ cut: { afterBytes: 70_000, arrival } }), serve()));
  const pulled = await pullFrom(hub, folder, arrival);
  expect(readFileSync(pulled.path).equals(weights)).toBe(true);
  expect(hub.requests[1]?.headers).toMatchObject({ range: 'bytes=70000-', 'if-range': '"one"' });
});

test('a pull that failed is continued by the next one', async () => {
  const folder = temporaryFolder();
  const arrival = watchArrival();
  const hub = await startHub(inTurn(serve({ cut: { afterBytes: 70_000, arrival } }), status(503), serve()));
  await expect(pullFrom(hub, folder, arrival)).rejects.toMatchObject({ kind: 'unavailable' });
  expect(readdirSync(folder)).toEqual(['tiny.gguf.partial']);
  const pulled = await pullFrom(hub, folder, arrival);
  expect(hub.requests[2]?.headers.range).toBe('bytes=70000-');
  expect(readFileSync(pulled.path).equals(weights)).toBe(true);
  expect(readdirSync(folder).sort()).toEqual(['tiny.gguf', 'tiny.gguf.sha256']);
});

test('a file that changed on the server is fetched from its start', async () => {
  const folder = temporaryFolder();
  const arrival = watchArrival();
  const old = serve({ bytes: otherWeights, etag: '"old"', cut: { afterBytes: 70_000, arrival } });
  const pulled = await pullFrom(await startHub(inTurn(old, serve({ etag: '"new"' }))), folder, arrival);
  expect(readFileSync(pulled.path).equals(weights)).toBe(true);
});

test('a part that belongs to another file is not appended', async () => {
  const folder = temporaryFolder();
  const arrival = watchArrival();
  const old = serve({ bytes: otherWeights, etag: '"old"', cut: { afterBytes: 70_000, arrival } });
  const ignoresIfRange = serve({ etag: '"old"', headers: { etag: '"new"' } });
  const pulled = await pullFrom(await startHub(inTurn(old, ignoresIfRange, serve({ etag: '"new"' }))), folder, arrival);
  expect(readFileSync(pulled.path).equals(weights)).toBe(true);
});

test.each([
  ['ignores ranges', serve({ ignoresRanges: true })],
  ['refuses the range', inTurn(status(416), status(416), serve())],
])('a server that %s sends the whole file', async (_name, then) => {
  const folder = temporaryFolder();
  const arrival = watchArrival();
  const hub = await startHub(inTurn(serve({ cut: { afterBytes: 70_000, arrival } }), then));
  expect(readFileSync((await pullFrom(hub, folder, arrival)).path).equals(weights)).toBe(true);
});

test('without a strong ETag nothing is continued', async () => {
  const folder = temporaryFolder();
  const arrival = watchArrival();
  const hub = await startHub(inTurn(serve({ etag: 'W/"one"', cut: { afterBytes: 70_000, arrival } }), serve()));
  await pullFrom(hub, folder, arrival);
  expect(hub.requests[1]?.headers.range).toBeUndefined();
});

test('bytes with another hash never reach the models folder', async () => {
  const folder = temporaryFolder();
  const failure = pullFrom(await startHub(serve({ bytes: otherWeights })), folder);
  await expect(failure).rejects.toMatchObject({ kind: 'wrong_content' });
  expect(readdirSync(folder)).toEqual([]);
});

test.each([
  ['longer', Buffer.concat([weights, weights])],
  ['shorter', weights.subarray(1)],
])('a %s file is refused before its bytes are read', async (_name, bytes) => {
  const folder = temporaryFolder();
  const seen: number[] = [];
  const failure = pullFrom(await startHub(serve({ bytes })), folder, {
    onProgress: ({ receivedBytes }) => seen.push(receivedBytes),
  });
  await expect(failure).rejects.toMatchObject({ kind: 'wrong_content' });
  expect(seen).toEqual([]);
});

test('an endless answer is cut off at the size of the file', async () => {
  const folder = temporaryFolder();
  const hub = await startHub(async (_request, response) => {
    response.writeHead(200);
    while (!response.destroyed) {
      await new Promise((resolve) => response.write(weights, resolve));
      // Node 24 answers writes to a client that left at once: without a pause nobody would get to hear that it did.
      await setImmediate();
    }
  });
  await expect(pullFrom(hub, folder)).rejects.toMatchObject({ kind: 'wrong_content' });
  expect(readdirSync(folder)).toEqual([]);
});

test('a server that announces another hash is refused before its bytes are read', async () => {
  const folder = temporaryFolder();
  const hub = await startHub(serve({ headers: { 'x-linked-etag': `"${hashOf(otherWeights)}"` } }));
  const seen: number[] = [];
  const failure = pullFrom(hub, folder, { onProgress: ({ receivedBytes }) => seen.push(receivedBytes) });
  await expect(failure).rejects.toMatchObject({ kind: 'wrong_content' });
  expect(seen).toEqual([]);
});

test('without a known hash the announced one counts', async () => {
  const arrival = watchArrival();
  const announce = (bytes: Buffer) => ({ 'x-linked-etag': `"${hashOf(bytes)}"` });
  const wrong = await startHub(serve({ headers: announce(otherWeights) }));
  await expect(pullFrom(wrong, temporaryFolder(), { entry: unhashed })).rejects.toMatchObject({
    kind: 'wrong_content',
  });
  const right = await startHub(
    inTurn(serve({ headers: announce(weights), cut: { afterBytes: 70_000, arrival } }), serve()),
  );
  expect(await pullFrom(right, temporaryFolder(), { ...arrival, entry: unhashed })).toMatchObject({
    sha256: hashOf(weights),
  });
});

test('without any hash the one that came first counts from then on', async () => {
  const folder = temporaryFolder();
  const hub = await startHub(serve());
  const { path } = await pullFrom(hub, folder, { entry: unhashed });
  writeFileSync(path, otherWeights);
  expect(await pullFrom(hub, folder, { entry: unhashed })).toMatchObject({ alreadyThere: false });
  expect(readFileSync(path).equals(weights)).toBe(true);
});

test('a missing file says what to do by hand, and not where it was looked for', async () => {
  const folder = temporaryFolder();
  const hub = await startHub(status(404));
  const failure = await pullFrom(hub, folder).catch((thrown: Error) => thrown);
  expect(failure).toMatchObject({ kind: 'unavailable', message: expect.stringContaining('status 404') });
  expect(failure).toMatchObject({ message: expect.stringContaining(`huggingface.co${weightsPath}`) });
  expect(failure).toMatchObject({ message: expect.stringContaining(join(folder, 'tiny.gguf')) });
  expect(failure).toMatchObject({ message: expect.stringContaining(hashOf(weights)) });
  expect(failure).toMatchObject({ message: expect.not.stringContaining('127.0.0.1') });
  expect(readdirSync(folder)).toEqual([]);
});

test('no connection says what to do by hand', async () => {
  const hub = await startHub(status(500));
  await hub.close();
  await expect(pullFrom(hub, temporaryFolder())).rejects.toMatchObject({
    kind: 'unavailable',
    message: expect.stringMatching(/ECONNREFUSED.*\nBy hand/),
  });
});

test('a server that never answers is given up', async () => {
  const hub = await startHub(async () => undefined);
  const failure = pullFrom(hub, temporaryFolder(), { silenceMs: 200 });
  await expect(failure).rejects.toThrow('UND_ERR_HEADERS_TIMEOUT');
});

test('a server that goes silent in the middle is asked once more, then given up', async () => {
  const folder = temporaryFolder();
  const hub = await startHub(
    inTurn(
      async (_request, response) => {
        response.writeHead(200, { etag: '"one"', 'content-length': weights.length });
        response.write(weights.subarray(0, 1000));
      },
      async () => undefined,
    ),
  );
  await expect(pullFrom(hub, folder, { silenceMs: 200 })).rejects.toThrow('UND_ERR_HEADERS_TIMEOUT');
  expect(hub.requests[1]?.headers.range).toBe('bytes=1000-');
  expect(readdirSync(folder)).toEqual(['tiny.gguf.partial']);
});

test('a cancelled pull ends at once and leaves what it has for the next', async () => {
  const folder = temporaryFolder();
  const stop = new AbortController();
  const stallsHalfWay: Answer = async (_request, response) => {
    response.writeHead(200, { etag: '"one"', 'content-length': weights.length });
    response.write(weights.subarray(0, 70_000));
  };
  const hub = await startHub(inTurn(stallsHalfWay, serve()));
  const onProgress = ({ receivedBytes }: PullProgress) => {
    if (receivedBytes === 70_000) stop.abort();
  };
  await expect(pullFrom(hub, folder, { signal: stop.signal, onProgress })).rejects.toMatchObject({
    name: 'AbortError',
  });
  await hub.aborted(1);
  const pulled = await pullFrom(hub, folder);
  expect(hub.requests[1]?.headers.range).toBe('bytes=70000-');
  expect(readFileSync(pulled.path).equals(weights)).toBe(true);
});

test('a redirect is followed and the announced hash of the first answer is kept', async () => {
  const storage = await startHub(serve());
  const hub = await startHub(async (_request, response) => {
    const headers = { location: `${storage.origin}/blob`, 'x-linked-etag': `"${hashOf(otherWeights)}"` };
    response.writeHead(302, headers).end();
  });
  await expect(pullFrom(hub, temporaryFolder())).rejects.toMatchObject({ kind: 'wrong_content' });
  await expect(
    pullFrom(hub, temporaryFolder(), { entry: { ...hubEntry, sha256: hashOf(otherWeights) } }),
  ).rejects.toThrow(hashOf(weights));
  expect(storage.requests.map(({ path }) => path)).toEqual(['/blob', '/blob']);
});

test.each([
  ['to plain HTTP elsewhere', 'http://weights.invalid/file', 'without encryption'],
  ['to a file on this machine', 'file:///etc/hostname', 'without encryption'],
  ['to itself for ever', weightsPath, 'in circles'],
])('a redirect %s is refused', async (_name, location, words) => {
  const hub = await startHub(async (_request, response) => {
    response.writeHead(302, { location }).end();
  });
  await expect(pullFrom(hub, temporaryFolder())).rejects.toThrow(words);
});

test.each([
  ['http://hub.invalid', 'without encryption'],
  ['not an address', 'HF_ENDPOINT'],
])('the endpoint %s is refused', async (origin, words) => {
  await expect(pullFrom({ origin }, temporaryFolder())).rejects.toThrow(words);
});

test('pulls at the same time do not touch each other’s bytes', async () => {
  const folder = temporaryFolder();
  const arrival = watchArrival();
  const broken = await startHub(inTurn(serve({ cut: { afterBytes: 70_000, arrival } }), status(503)));
  await expect(pullFrom(broken, folder, arrival)).rejects.toMatchObject({ kind: 'unavailable' });
  const hub = await startHub(serve());
  const pulled = await Promise.all([1, 2, 3].map(() => pullFrom(hub, folder)));
  expect(pulled.map(({ sha256 }) => sha256)).toEqual([1, 2, 3].map(() => hashOf(weights)));
  expect(hub.requests.map(({ headers }) => headers.range).filter((range) => range !== undefined)).toHaveLength(1);
  expect(readFileSync(join(folder, 'tiny.gguf')).equals(weights)).toBe(true);
  expect(readdirSync(folder).sort()).toEqual(['tiny.gguf', 'tiny.gguf.sha256']);
});

test('what a killed process left is taken over once it has not changed for ten minutes, not before', async () => {
  const folder = temporaryFolder();
  const left = join(folder, 'tiny.gguf.partial-of-a-dead-process');
  mkdirSync(left);
  writeFileSync(join(left, 'bytes'), weights.subarray(0, 70_000));
  writeFileSync(join(left, 'origin.json'), '{"etag":"\\"one\\""}');
  const hub = await startHub(inTurn(status(503), serve()));
  await expect(pullFrom(hub, folder)).rejects.toMatchObject({ kind: 'unavailable' });
  expect(hub.requests[0]?.headers.range).toBeUndefined();
  expect(readdirSync(folder)).toEqual(['tiny.gguf.partial-of-a-dead-process']);

  const elevenMinutesAgo = new Date(Date.now() - 11 * 60_000);
  for (const path of [join(left, 'bytes'), join(left, 'origin.json'), left]) {
    utimesSync(path, elevenMinutesAgo, elevenMinutesAgo);
  }
  const pulled = await pullFrom(hub, folder);
  expect(hub.requests[1]?.headers.range).toBe('bytes=70000-');
  expect(readFileSync(pulled.path).equals(weights)).toBe(true);
});

test('a research-only model is fetched only once its licence is accepted', async () => {
  const folder = temporaryFolder();
  const hub = await startHub(serve());
  const entry = { ...hubEntry, licence: { name: 'Some licence', researchOnly: true } };
  await expect(pullFrom(hub, folder, { entry })).rejects.toMatchObject({ kind: 'licence_not_accepted' });
  expect(hub.requests).toEqual([]);
  expect(await pullFrom(hub, folder, { entry, acceptLicence: true })).toMatchObject({ alreadyThere: false });
});
