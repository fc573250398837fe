import { randomUUID } from 'node:crypto';
import { copyFile, mkdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Adapter } from './engine.ts';
import { checkAdapterFile } from './gguf-file.ts';
import { sha256OfFile } from './weights-hash.ts';

export interface AdapterCopy {
  readonly filePath: string;
  readonly scale: number;
  readonly sha256: string;
}

/**
 * Gives llama.cpp a copy of a LoRA file under a name that is its content's: the library knows adapters by their path, so a
 * file that was written anew would be taken for the old one. A copy lives as long as `use`.
 */
export type UseAdapter = <Result>(
  adapter: Adapter,
  architecture: string,
  use: (copy: AdapterCopy) => Promise<Result>,
) => Promise<Result>;

export function adapterCopies(): UseAdapter {
  const folder = join(tmpdir(), `orchestra-adapter-${randomUUID()}`);
  return async ({ path, scale }, architecture, use) => {
    await checkAdapterFile(path, architecture);
    await mkdir(folder, { mode: 0o700 });
    try {
      const incoming = join(folder, 'incoming');
      await copyFile(path, incoming);
      const sha256 = await sha256OfFile(incoming);
      const filePath = join(folder, `${sha256}.gguf`);
      await rename(incoming, filePath);
      return await use({ filePath, scale, sha256 });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };
}
