import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { InferenceEngine } from '../../src/inference/engine.ts';
import { EngineClient } from '../../src/inference/engine-client.ts';
import { type HostSettings, hostSettings } from '../../src/inference/host-session.ts';
import { startEngine, threadsFor } from '../../src/inference/start-engine.ts';
import { brokenModels } from '../support/gguf/broken-models.ts';
import { tinyModel, writeModel } from '../support/gguf/tiny-model.ts';
import { commandLine, eventually, hostsOf, onlyHost } from './host-processes.ts';
import { endless, engineOptions, generated, generateRequest } from './tiny-models.ts';

const file = writeModel(endless());
afterAll(() => file.remove());

const shortText = (engine: InferenceEngine) =>
  generated(engine, generateRequest({ maxTokens: 6 })).then(({ text }) => text);

async function startClient(changes: Partial<HostSettings>, modelPath = file.path): Promise<EngineClient> {
  const client = new EngineClient(engineOptions(modelPath, { contextTokens: 16_384 }), {
    ...hostSettings(),
    firstRestartMs: 20,
    ...changes,
  });
  await client.start();
  return client;
}

describe('a host that dies', () => {
  let client: EngineClient;
  beforeAll(async () => {
    client = await startClient({});
  });
  afterAll(() => client.close());

  test.each(['SIGSEGV', 'SIGKILL'] as const)('of %s fails its requests, and comes back by itself', async (signal) => {
    const host = await eventually(onlyHost);
    const reading = generated(client, generateRequest({ maxTokens: 16_000 }));
    await eventually(() => client.countTokens('the'));
    process.kill(host, signal);
    await expect(reading).rejects.toMatchObject({ name: 'EngineFailure', kind: 'crashed' });
    expect(await eventually(() => shortText(client))).toBe('x y😀');
    expect(onlyHost()).not.toBe(host);
  });

  test('tells its signal, and no more, in the message', async () => {
    const reading = generated(client, generateRequest({ maxTokens: 16_000 }));
    process.kill(onlyHost(), 'SIGSEGV');
    await expect(reading).rejects.toThrow(/^the inference host is being restarted: it died of SIGSEGV$/);
    await eventually(() => shortText(client));
  });
});

test('a host that hangs is killed and restarted', async () => {
  const client = await startClient({ heartbeatMs: 200, mostUnanswered: 5 });
  const host = onlyHost();
  const reading = generated(client, generateRequest({ maxTokens: 16_000 }));
  process.kill(host, 'SIGSTOP');
  await expect(reading).rejects.toThrow('it stopped answering');
  expect(await eventually(() => shortText(client))).toBe('x y😀');
  await client.close();
});

test('a host that cannot come back says why', async () => {
  const vanishing = writeModel(endless());
  const client = await startClient({}, vanishing.path);
  vanishing.remove();
  process.kill(onlyHost(), 'SIGKILL');
  await eventually(() => expect(client.countTokens('the')).rejects.toThrow('check the path'));
  await client.close();
  expect(hostsOf(process.pid)).toEqual([]);
});

test('a host sees nothing of our environment but what it is given', async () => {
  process.env['ORCHESTRA_TEST_SECRET'] = 'hidden';
  const engine = await startEngine(engineOptions(file.path, { environment: { GIVEN: 'yes' } }));
  const environment = readFileSync(`/proc/${onlyHost()}/environ`, 'utf8').split('\0').filter(Boolean);
  const folder = environment[0]?.slice('HOME='.length) ?? '';
  expect(environment).toEqual([`HOME=${folder}`, `TMPDIR=${folder}`, 'GIVEN=yes']);
  expect(folder.startsWith(join(tmpdir(), 'orchestra-host-'))).toBe(true);
  await engine.close();
  delete process.env['ORCHESTRA_TEST_SECRET'];
});

test('what a host has written is gone with it, even when it is killed', async () => {
  const client = await startClient({});
  const folder = readFileSync(`/proc/${onlyHost()}/environ`, 'utf8').split('\0')[0]?.slice('HOME='.length) ?? '';
  expect(statSync(folder).mode & 0o077).toBe(0);
  expect(readdirSync(folder).some((name) => name.startsWith('orchestra-snapshots-'))).toBe(true);
  process.kill(onlyHost(), 'SIGKILL');
  await eventually(() => shortText(client));
  expect(existsSync(folder)).toBe(false);
  await client.close();
});

describe('a host that speaks nonsense', () => {
  const frame =
    'const frame = (text) => { const b = Buffer.from(text); const h = Buffer.alloc(4); h.writeUInt32BE(b.length); return Buffer.concat([h, b]); };';
  const ready =
    'const info = { architecture: "fake", device: "cpu", contextTokens: 1, takesTools: false, weightsHash: String(process.pid) };';
  /** Ready at once; answers the first request with `reply`, an expression of bytes. */
  const lying = (reply: string): readonly string[] => [
    '--eval',
    `${frame}${ready}
     const socket = new (require("node:net").Socket)({ fd: 3 });
     socket.on("close", () => process.exit());
     socket.on("data", (bytes) => {
       const text = bytes.toString();
       if (text.includes('"start"')) socket.write(frame(JSON.stringify([{ type: "ready", info }])));
       else if (text.includes('"count"')) socket.write(${reply});
       else if (text.includes('"ping"')) socket.write(frame('[{"type":"pong","decodingForMs":5000}]'));
     });`,
  ];
  let client: EngineClient | undefined;
  afterEach(() => client?.close());

  test.each([
    ['a frame that is not JSON', 'frame("{")'],
    ['a frame that claims four gigabytes', 'Buffer.alloc(4, 255)'],
    ['an unknown message', `frame('[{"type":"surprise"}]')`],
    ['a result of the wrong shape', `frame('[{"type":"counted","id":1,"tokens":"many"}]')`],
  ])('such as %s is restarted', async (_, reply) => {
    client = await startClient({ arguments: lying(reply) });
    const first = client.info.weightsHash;
    await expect(client.countTokens('x')).rejects.toThrow('it sent a corrupt frame');
    await eventually(() => expect(client?.info.weightsHash).not.toBe(first));
  });

  test('such as another kind of answer fails only the request', async () => {
    const result = '{"logProbabilities":[],"thought":"","usage":{"promptTokens":0,"cachedTokens":0,"outputTokens":0}}';
    client = await startClient({ arguments: lying(`frame('[{"type":"scored","id":1,"result":${result}}]')`) });
    const first = client.info.weightsHash;
    await expect(client.countTokens('x')).rejects.toMatchObject({ kind: 'crashed' });
    expect(client.info.weightsHash).toBe(first);
  });

  test('such as a decode that never ends is restarted', async () => {
    client = await startClient({ arguments: lying('""'), heartbeatMs: 20, decodeLimitMs: 4_000 });
    await expect(client.countTokens('x')).rejects.toThrow('a decode did not come to an end');
  });

  test('such as none at all is given up', async () => {
    const silent = new EngineClient(engineOptions(file.path), {
      ...hostSettings(),
      arguments: ['--eval', 'setInterval(() => {}, 1000)'],
      startLimitMs: 300,
    });
    await expect(silent.start()).rejects.toMatchObject({
      kind: 'unavailable',
      message: 'the inference host did not start: it took too long to start',
    });
  });
});

test('a request larger than a frame is too long, and the host lives on', async () => {
  const client = await startClient({});
  const host = onlyHost();
  await expect(client.countTokens('x'.repeat(2 ** 24))).rejects.toMatchObject({ kind: 'context_full' });
  expect(await client.countTokens('x')).toBe(1);
  expect(onlyHost()).toBe(host);
  await client.close();
});

test('a host ends when its parent is killed', async () => {
  const script = fileURLToPath(new URL('./engine-parent.ts', import.meta.url));
  const parent: ChildProcess = spawn(
    process.execPath,
    ['--import', createRequire(import.meta.url).resolve('tsx'), script, file.path],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  if (parent.stdout === null || parent.pid === undefined) throw new Error('the parent did not start');
  await once(parent.stdout, 'data');
  const [host = 0] = hostsOf(parent.pid);
  expect(host).toBeGreaterThan(0);
  parent.kill('SIGKILL');
  await eventually(() => expect(commandLine(host)).toBe(''));
});

describe('a start that fails', () => {
  test.each(brokenModels)('says what is wrong with $name', async ({ bytes, reason }) => {
    const broken = writeModel(bytes());
    const starting = startEngine(engineOptions(broken.path));
    await expect(starting).rejects.toMatchObject({ kind: 'unavailable', message: expect.stringMatching(reason) });
    broken.remove();
    expect(hostsOf(process.pid)).toEqual([]);
  });

  test.each([
    ['a missing file', { modelPath: '/nowhere/model.gguf' }, '/nowhere/model.gguf cannot be opened; check the path'],
    ['a folder', { modelPath: '/tmp' }, 'it is not a file'],
    ['a context larger than trained', { contextTokens: 20_000 }, 'set a context of at most 16384'],
  ])('says what to do about %s', async (_, changes, advice) => {
    const starting = startEngine(engineOptions(file.path, changes));
    await expect(starting).rejects.toMatchObject({ kind: 'unavailable', message: expect.stringContaining(advice) });
  });

  test('says how much memory a context would need', async () => {
    const patient = writeModel(tinyModel({ trainedContextTokens: 2 ** 24 }));
    const starting = startEngine(engineOptions(patient.path, { contextTokens: 2 ** 24, sequences: 256 }));
    await expect(starting).rejects.toMatchObject({
      kind: 'unavailable',
      message: expect.stringMatching(/need 1048\d\d\d MiB, but \d+ MiB are free; ask for a smaller context/),
    });
    patient.remove();
  });

  test.skipIf(existsSync('/dev/nvidiactl'))('does not take the CPU in silence where CUDA is missing', async () => {
    const starting = startEngine(engineOptions(file.path, { device: 'cuda' }));
    await expect(starting).rejects.toThrow(
      /device cuda was asked for, but (no engine|there is no NVIDIA device).*the CPU is not taken in silence/,
    );
  });
});

test('one core is left free, and one thread is the least', () => {
  expect([1, 2, 8].map(threadsFor)).toEqual([1, 1, 7]);
});
