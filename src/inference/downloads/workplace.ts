import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';

/** Longer than any source may stay silent, so a folder that did not change for so long belongs to a dead process. */
const abandonedAfterMs = 10 * 60_000;

const originSchema = z.object({ etag: z.string().exactOptional(), promisedSha256: z.string().exactOptional() });

/** What the server said about the bytes so far: its strong ETag, so that the rest can be asked for, and their hash. */
export type Origin = z.infer<typeof originSchema>;

/**
 * The folder one pull works in, beside the file it will make. It has a name of its own, so that pulls of the same model
 * never touch each other's bytes; one that was interrupted is left under a name that the next pull takes over.
 */
export interface Workplace {
  readonly folder: string;
  /** The weights as far as they are here. */
  readonly bytesPath: string;
  bytesHere(): Promise<number>;
  readOrigin(): Promise<Origin>;
  writeOrigin(origin: Origin): Promise<void>;
  clear(): Promise<void>;
  /** Keeps the bytes for the next pull; without any, the folder goes. */
  leaveForLater(): Promise<void>;
  remove(): Promise<void>;
}

export async function openWorkplace(finalPath: string): Promise<Workplace> {
  await mkdir(dirname(finalPath), { recursive: true });
  const resumable = `${finalPath}.partial`;
  const folder = `${resumable}-${randomUUID()}`;
  await takeOverOrCreate(resumable, folder);
  const bytesPath = join(folder, 'bytes');
  const originPath = join(folder, 'origin.json');
  const remove = () => rm(folder, { recursive: true, force: true, maxRetries: 3 });
  const bytesHere = async () => (await stat(bytesPath).catch(() => undefined))?.size ?? 0;
  return {
    folder,
    bytesPath,
    bytesHere,
    readOrigin: async () => {
      const text = await readFile(originPath, 'utf8').catch(() => '');
      return originSchema.safeParse(parseOrNull(text)).data ?? {};
    },
    writeOrigin: (origin) => writeFile(originPath, JSON.stringify(origin)),
    clear: async () => {
      await Promise.all([rm(bytesPath, { force: true }), rm(originPath, { force: true })]);
    },
    // Another pull may have left its own in the meantime: one is enough.
    leaveForLater: async () => ((await bytesHere()) > 0 ? rename(folder, resumable).catch(remove) : remove()),
    remove,
  };
}

async function takeOverOrCreate(resumable: string, folder: string): Promise<void> {
  for (const candidate of [resumable, ...(await abandonedBeside(resumable))]) {
    // Renaming is atomic: of two pulls that want the same folder, one gets it.
    const taken = await rename(candidate, folder).then(
      () => true,
      () => false,
    );
    if (taken) return;
  }
  await mkdir(folder);
}

async function abandonedBeside(resumable: string): Promise<readonly string[]> {
  const parent = dirname(resumable);
  const names = await readdir(parent);
  const folders = names.filter((name) => name.startsWith(`${basename(resumable)}-`)).map((name) => join(parent, name));
  const changes = await Promise.all(folders.map(lastChangeMs));
  return folders.filter((_, index) => (changes[index] ?? 0) < Date.now() - abandonedAfterMs);
}

async function lastChangeMs(folder: string): Promise<number> {
  const inside = await readdir(folder, { recursive: true }).catch(() => []);
  const found = await Promise.all(
    ['.', ...inside].map((name) =>
      stat(join(folder, name)).then(
        ({ mtimeMs }) => mtimeMs,
        () => 0,
      ),
    ),
  );
  return Math.max(...found);
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
