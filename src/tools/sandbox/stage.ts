import { constants, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Bind } from './python-runtime.ts';

const folder = '/mnt';

/** Shows what it is given at `/mnt/0`, `/mnt/1`, … in a mount namespace of its own, then becomes the rest. */
const script = `
set -e
mount -t tmpfs -o mode=0755 none ${folder}
number=0
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir "${folder}/$number"; else : > "${folder}/$number"; fi
  mount --bind "$1" "${folder}/$number"
  number=$((number + 1))
  shift
done
shift
exec "$@"
`;

/**
 * An interpreter under a private folder (`/root/.pyenv`) is out of reach once root is dropped. So root first shows it
 * at a place that everyone reaches, seen by this one run only.
 * @returns the beginning of a command (empty when all is within reach) and the binds as they are to be used after it.
 */
export async function stageFor(binds: readonly Bind[]): Promise<readonly [command: readonly string[], Bind[]]> {
  const command: string[] = [];
  const within: Bind[] = [];
  for (const bind of binds) {
    if (await everyoneReaches(bind.source)) within.push(bind);
    else within.push({ source: `${folder}/${command.push(bind.source) - 1}`, target: bind.target });
  }
  if (command.length === 0) return [[], within];
  return [['unshare', '--mount', '--', 'sh', '-c', script, 'sh', ...command, '--'], within];
}

/** Whether someone without any of our rights can read it: it is open itself, and so is each folder on the way. */
async function everyoneReaches(path: string): Promise<boolean> {
  const { mode } = await stat(path);
  return (mode & constants.S_IROTH) !== 0 && everyonePasses(dirname(path));
}

async function everyonePasses(path: string): Promise<boolean> {
  const { mode } = await stat(path);
  return (mode & constants.S_IXOTH) !== 0 && (path === '/' || everyonePasses(dirname(path)));
}
