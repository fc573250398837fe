import { readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type DownloadEntry, downloadsSchema } from './entry.ts';
import { DownloadFailure } from './failure.ts';

/** Beside the sources and beside the build alike: `models` at the root of the project. */
const bundledFolder = fileURLToPath(new URL('../../../models', import.meta.url));

export interface FoundModel {
  /** Undefined for a path that downloads.json does not know. */
  readonly entry: DownloadEntry | undefined;
  readonly path: string;
  /** A file is there and, where the size is known, has it; of an adapter, both files. */
  readonly present: boolean;
  /** Where the file is an adapter: the weights it belongs to. */
  readonly base?: KnownModel;
}

export interface KnownModel extends FoundModel {
  readonly entry: DownloadEntry;
}

/** Reads and checks models/downloads.json. */
export function readDownloads(file: string = join(bundledFolder, 'downloads.json')): readonly DownloadEntry[] {
  return downloadsSchema.parse(JSON.parse(readFileSync(file, 'utf8'))).models;
}

export function listDownloads(
  folder: string,
  entries: readonly DownloadEntry[] = readDownloads(),
): Promise<readonly KnownModel[]> {
  return Promise.all(entries.map((entry) => knownModel(entry, folder, entries)));
}

/**
 * Resolves an id of downloads.json, or a path that ends in `.gguf`.
 * @throws DownloadFailure `unknown_model` for anything else. A file that is not there is no error: see `present`.
 */
export async function findModel(
  idOrPath: string,
  folder: string,
  entries: readonly DownloadEntry[] = readDownloads(),
): Promise<FoundModel> {
  const entry = entries.find(({ id }) => id === idOrPath);
  if (entry !== undefined) return knownModel(entry, folder, entries);
  if (!idOrPath.endsWith('.gguf')) throw unknownModel(idOrPath, entries, ' Or name the path of a .gguf file.');
  const path = resolve(idOrPath);
  return { entry: undefined, path, present: (await sizeOf(path)) !== undefined };
}

async function knownModel(
  entry: DownloadEntry,
  folder: string,
  entries: readonly DownloadEntry[],
): Promise<KnownModel> {
  const path = modelPath(entry, folder);
  const isHere = (await sizeOf(path)) === entry.sizeBytes;
  const baseEntry = entries.find(({ id }) => id === entry.base);
  if (baseEntry === undefined) return { entry, path, present: isHere };
  const base = await knownModel(baseEntry, folder, entries);
  return { entry, path, present: isHere && base.present, base };
}

export function modelPath(entry: DownloadEntry, folder: string): string {
  return join(entry.source.kind === 'bundled' ? bundledFolder : folder, entry.file);
}

export function unknownModel(id: string, entries: readonly DownloadEntry[], hint = ''): DownloadFailure {
  const known = entries.map((entry) => entry.id).join(', ');
  return new DownloadFailure('unknown_model', `There is no model "${id}". Known: ${known}.${hint}`);
}

async function sizeOf(path: string): Promise<number | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found?.isFile() ? found.size : undefined;
}
