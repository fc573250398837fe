import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createLocalSearch, type LocalSearchOptions } from '../../../src/tools/local-search/local-search.ts';

let root: string;
let folder: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'orchestra-search-'));
  folder = join(root, 'docs');
  mkdirSync(folder);
});
afterEach(() => rmSync(root, { recursive: true }));

function write(path: string, content: string | Buffer): void {
  const full = join(folder, path);
  mkdirSync(dirname(full), { recursive: true });
  writeFileSync(full, content);
}

function writeLibrary(): void {
  write(
    'refunds.md',
    '# Refunds\n\n## Annual plans\nA refund is paid within 30 days.\n\n## Monthly plans\nThere is none.',
  );
  write('guide/tides.html', '<title>Tides</title><h2>Brest harbour</h2><p>High tide comes twice a day.</p>');
  write('notes.txt', 'The server room is on floor four.\nAsk the porter for the key of the cabinet.');
  write('data.csv', 'city,population\nBrest,139456\n');
}

const searchIn = (part: Partial<LocalSearchOptions> = {}) =>
  createLocalSearch({ name: 'docs', meter: 'tool:docs', folders: [folder], privacy: 'self_hosted', ...part });

const request = (query: string, limit = 5) => ({ query, limit, signal: new AbortController().signal });

test('finds the best passage, and says where it stands', async () => {
  writeLibrary();
  const search = await searchIn();
  const { documents, usage } = await search.search(request('refund for annual plans'));
  expect(documents[0]).toEqual({
    text: 'A refund is paid within 30 days.',
    source: 'docs',
    title: 'Refunds › Annual plans',
    url: 'file:refunds.md#annual-plans',
    privacy: 'self_hosted',
  });
  expect(usage).toMatchObject({ calls: 1 });
});

test('reads HTML and plain text, and tables where they are wanted', async () => {
  writeLibrary();
  const prose = await searchIn();
  expect((await prose.search(request('population of Brest', 1))).documents[0]?.url).not.toContain('data.csv');
  expect(prose.stats().files).toBe(3);
  const search = await searchIn({ withData: true });
  const urlOf = async (query: string) => (await search.search(request(query, 1))).documents[0]?.url;
  expect(await urlOf('When is high tide?')).toBe('file:guide/tides.html#brest-harbour');
  expect(await urlOf('porter cabinet key')).toBe('file:notes.txt#L1');
  expect(await urlOf('population of Brest')).toBe('file:data.csv#L1');
});

test('itself sees no byte leave, whatever the class of the documents', async () => {
  writeLibrary();
  const search = await searchIn({ privacy: 'any' });
  expect(search.privacy).toBe('local');
  expect((await search.search(request('tide'))).documents[0]?.privacy).toBe('any');
});

test('finds words in any case, without accents, and in scripts without spaces', async () => {
  write('a.md', 'Le CAFÉ ferme tôt.');
  write('b.md', '東京の天気は晴れです。');
  const search = await searchIn();
  expect((await search.search(request('cafe'))).documents).toHaveLength(1);
  expect((await search.search(request('東京'))).documents[0]?.url).toBe('file:b.md#L1');
});

test('gives nothing rather than passages that only share small words', async () => {
  for (let number = 0; number < 30; number += 1) write(`${number}.md`, `This is the page of the number ${number}.`);
  const search = await searchIn();
  expect((await search.search(request('What is the capital of France?'))).documents).toEqual([]);
  expect((await search.search(request('page number 7'))).documents).not.toEqual([]);
  expect((await search.search(request(' ?! '))).documents).toEqual([]);
});

test('gives at most what is wanted', async () => {
  for (let number = 0; number < 30; number += 1) write(`${number}.md`, `Tide table ${number}`);
  expect((await (await searchIn()).search(request('tide', 3))).documents).toHaveLength(3);
});

test('never follows a link, into the folder or out of it', async () => {
  writeFileSync(join(root, 'secret.md'), 'The canary sings.');
  mkdirSync(join(root, 'outside'));
  writeFileSync(join(root, 'outside', 'secret.md'), 'The canary sings.');
  symlinkSync(join(root, 'secret.md'), join(folder, 'link.md'));
  symlinkSync(join(root, 'outside'), join(folder, 'linked'));
  writeLibrary();
  symlinkSync(join(folder, 'notes.txt'), join(folder, 'again.txt'));
  const search = await searchIn();
  expect((await search.search(request('canary'))).documents).toEqual([]);
  expect(search.stats().files).toBe(3);
});

test('counts what it cannot read, and passes over what is not for readers', async () => {
  writeLibrary();
  write('huge.txt', 'x'.repeat(5 * 1024 ** 2 + 1));
  write('binary.txt', Buffer.from([0xff, 0xfe, 0x00, 0xd8]));
  write('.git/config.md', 'hidden');
  write('photo.jpg', 'not text');
  write('schema.json', '{"not": "prose"}');
  execFileSync('python3', ['-c', 'import os, sys; os.mkfifo(sys.argv[1])', join(folder, 'pipe.txt')]);
  const search = await searchIn();
  expect(search.stats()).toEqual({ files: 3, chunks: 4, skipped: { too_large: 1, unreadable: 1 } });
});

test('a folder that is not there is an error at once', async () => {
  await expect(searchIn({ folders: [join(root, 'absent')] })).rejects.toMatchObject({ code: 'ENOENT' });
});

test('searches several folders as one', async () => {
  writeLibrary();
  const other = join(root, 'other');
  mkdirSync(other);
  writeFileSync(join(other, 'moon.md'), 'The moon causes the tides.');
  const search = await searchIn({ folders: [folder, other] });
  expect((await search.search(request('moon'))).documents[0]?.url).toBe('file:moon.md#L1');
});

test('lets other work go on while a big file is taken in', async () => {
  write('big.txt', Array.from({ length: 40_000 }, (_, number) => `word${number} and another${number}`).join('\n'));
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 1);
  const search = await searchIn();
  clearInterval(timer);
  expect(search.stats().chunks).toBeGreaterThan(500);
  expect(turns).toBeGreaterThan(5);
});

test('a fired signal ends the reading and the searching', async () => {
  writeLibrary();
  const search = await searchIn();
  const leaving = AbortSignal.abort();
  await expect(search.search({ ...request('tide'), signal: leaving })).rejects.toMatchObject({ name: 'AbortError' });
  await expect(searchIn({ signal: leaving })).rejects.toMatchObject({ name: 'AbortError' });
});
