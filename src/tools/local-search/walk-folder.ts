import { constants } from 'node:fs';
import { open, readdir, realpath } from 'node:fs/promises';
import { extname, join } from 'node:path';

export interface TextFile {
  /** From the folder on, with `/`. */
  readonly path: string;
  readonly text: string;
}

export type SkipReason = 'too_large' | 'unreadable';

export type FolderEntry = TextFile | { readonly path: string; readonly skipped: SkipReason };

const prose = ['.md', '.markdown', '.txt', '.html', '.htm'];
const data = ['.json', '.csv'];
const maxFileBytes = 5 * 1024 ** 2;

/**
 * Every text file below a folder in a stable order. Hidden names are passed over, and so are symbolic links, whatever
 * they point to: what was put into the folder is searched, nothing else.
 * @param withData JSON and CSV as well as prose
 * @throws when the folder itself cannot be read
 */
export async function* walkFolder(folder: string, withData: boolean): AsyncGenerator<FolderEntry, void> {
  const root = await realpath(folder);
  await readdir(root);
  yield* walk(root, '', new Set(withData ? [...prose, ...data] : prose));
}

async function* walk(root: string, folder: string, extensions: ReadonlySet<string>): AsyncGenerator<FolderEntry, void> {
  const entries = await readdir(join(root, folder), { withFileTypes: true }).catch(() => undefined);
  if (entries === undefined) yield { path: folder, skipped: 'unreadable' };
  const visible = (entries ?? []).filter(({ name }) => !name.startsWith('.'));
  for (const entry of visible.sort((left, right) => (left.name < right.name ? -1 : 1))) {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) yield* walk(root, path, extensions);
    else if (entry.isFile() && extensions.has(extname(entry.name).toLowerCase())) yield readText(root, path);
  }
}

async function readText(root: string, path: string): Promise<FolderEntry> {
  try {
    // A link or a pipe may have taken the file's place since the folder was read.
    const file = await open(join(root, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const stat = await file.stat();
      if (!stat.isFile()) return { path, skipped: 'unreadable' };
      if (stat.size > maxFileBytes) return { path, skipped: 'too_large' };
      return { path, text: new TextDecoder('utf-8', { fatal: true }).decode(await file.readFile()) };
    } finally {
      await file.close();
    }
  } catch {
    return { path, skipped: 'unreadable' };
  }
}
