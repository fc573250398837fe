import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { Command } from 'commander';
import { expect, test } from 'vitest';
import { type ModelCommandContext, registerModelCommands } from '../../src/commands/models.ts';
import type { DownloadEntry } from '../../src/inference/downloads/entry.ts';
import { DownloadFailure } from '../../src/inference/downloads/failure.ts';
import { hashOf, hubEntry, serve, startHub, status, temporaryFolder, weights } from '../inference/downloads/hub.ts';

const research: DownloadEntry = {
  ...hubEntry,
  licence: { name: 'Some licence', url: 'https://licence.invalid', notice: 'Research only.', researchOnly: true },
};

/** Runs the command line; a failure that is foreseen comes back as its sentence. */
async function run(
  words: readonly string[],
  context: Partial<ModelCommandContext> & { readonly folder: string },
): Promise<{ readonly lines: readonly string[]; readonly failure: string | undefined }> {
  const lines: string[] = [];
  const program = new Command('orchestra');
  registerModelCommands(program, {
    modelsFolder: () => context.folder,
    write: (line) => lines.push(line),
    environment: {},
    signal: new AbortController().signal,
    downloads: [hubEntry],
    ...context,
  });
  const failure = await program.parseAsync(['models', ...words], { from: 'user' }).then(
    () => undefined,
    (thrown: unknown) => {
      if (thrown instanceof DownloadFailure) return thrown.message;
      throw thrown;
    },
  );
  return { lines, failure };
}

/** A person at a terminal: what they type, and what they see. */
function person(answer: string) {
  const input = new PassThrough();
  const output = Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
  const seen: string[] = [];
  output.on('data', (chunk: Buffer) => {
    seen.push(chunk.toString());
    if (chunk.includes('[y/N]')) input.write(`${answer}\n`);
  });
  return { terminal: { input, output }, seen };
}

test('list shows what can be fetched and what is here', async () => {
  const folder = temporaryFolder();
  const other: DownloadEntry = { ...research, id: 'big-one', file: 'big.gguf', sizeBytes: 5_027_783_840 };
  writeFileSync(join(folder, 'tiny.gguf'), weights);
  const { lines } = await run(['list'], { folder, downloads: [hubEntry, other] });
  expect(lines).toEqual([
    'id       role    size    licence                       here',
    'tiny     expert  0 MB    Apache-2.0                    yes',
    'big-one  expert  5.0 GB  Some licence (research only)  no',
    `Folder: ${folder}`,
  ]);
});

test('pull shows the licence first, progress in plain lines, and the path last', async () => {
  const folder = temporaryFolder();
  const hub = await startHub(serve());
  const { lines, failure } = await run(['pull', 'tiny'], { folder, environment: { HF_ENDPOINT: hub.origin } });
  expect(failure).toBeUndefined();
  expect(lines[1]).toBe('Licence: Apache-2.0');
  expect(lines.filter((line) => line.includes(' % of '))).toContain('100 % of 0 MB');
  expect(lines.slice(-2)).toEqual([`SHA-256 ${hashOf(weights)}`, `Ready: ${join(folder, 'tiny.gguf')}`]);
});

test('pull of an adapter fetches the weights it belongs to first', async () => {
  const folder = temporaryFolder();
  const hub = await startHub(serve());
  const adapter: DownloadEntry = { ...hubEntry, id: 'tuned', file: 'tuned.gguf', base: 'tiny' };
  writeFileSync(join(folder, 'tuned.gguf'), weights);
  const context = { folder, downloads: [hubEntry, adapter], environment: { HF_ENDPOINT: hub.origin } };
  const { lines, failure } = await run(['pull', 'tuned'], context);
  expect(failure).toBeUndefined();
  expect(lines).toContain(`Ready: ${join(folder, 'tiny.gguf')}`);
  expect(lines.at(-1)).toBe(`Already here: ${join(folder, 'tuned.gguf')}`);
});

test('a research-only model without a terminal demands the flag', async () => {
  const folder = temporaryFolder();
  const hub = await startHub(serve());
  const context = { folder, downloads: [research], environment: { HF_ENDPOINT: hub.origin } };
  const refused = await run(['pull', 'tiny'], context);
  expect(refused.failure).toContain('--accept-licence');
  expect(refused.lines.slice(1)).toEqual(['Licence: Some licence, https://licence.invalid', 'Research only.']);
  expect(hub.requests).toEqual([]);
  expect(await run(['pull', 'tiny', '--accept-licence'], context)).toMatchObject({ failure: undefined });
});

test.each([
  ['y', true],
  ['n', false],
  ['', false],
])('the answer "%s" at a terminal: pulled is %s', async (answer, pulls) => {
  const folder = temporaryFolder();
  const hub = await startHub(serve());
  const { terminal, seen } = person(answer);
  const context = { folder, downloads: [research], environment: { HF_ENDPOINT: hub.origin }, terminal };
  expect((await run(['pull', 'tiny'], context)).failure === undefined).toBe(pulls);
  expect(hub.requests).toHaveLength(pulls ? 1 : 0);
  expect(seen.join('')).toContain('Do you accept this licence?');
  expect(seen.join('').includes('100 %')).toBe(pulls);
});

test('nobody is asked about a file that is already here', async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, 'tiny.gguf'), weights);
  const { lines, failure } = await run(['pull', 'tiny'], { folder, downloads: [research] });
  expect(failure).toBeUndefined();
  expect(lines.at(-1)).toBe(`Already here: ${join(folder, 'tiny.gguf')}`);
});

test('an unknown id names the known ones', async () => {
  expect((await run(['pull', 'tinny'], { folder: temporaryFolder() })).failure).toContain('Known: tiny.');
});

test('a failed pull ends with what to do by hand', async () => {
  const hub = await startHub(status(404));
  const context = { folder: temporaryFolder(), environment: { HF_ENDPOINT: hub.origin } };
  expect((await run(['pull', 'tiny'], context)).failure).toContain('By hand');
});

test('a stopped pull says so', async () => {
  const stop = new AbortController();
  const hub = await startHub(async () => stop.abort());
  const context = { folder: temporaryFolder(), environment: { HF_ENDPOINT: hub.origin }, signal: stop.signal };
  expect((await run(['pull', 'tiny'], context)).failure).toContain('Stopped');
});

test('without a known hash the computed one is shown as such', async () => {
  const hub = await startHub(serve());
  const folder = temporaryFolder();
  const context = { folder, downloads: [{ ...hubEntry, sha256: null }], environment: { HF_ENDPOINT: hub.origin } };
  const { lines } = await run(['pull', 'tiny'], context);
  expect(lines.at(-2)).toBe(`SHA-256 ${hashOf(weights)} (as it came: no expected hash is known)`);
  expect(readFileSync(join(folder, 'tiny.gguf.sha256'), 'utf8')).toContain(hashOf(weights));
});
