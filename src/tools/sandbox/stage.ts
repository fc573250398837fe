import { constants, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Bind } from './python-runtime.ts';

/** Where the scratch folder waits until the sandbox binds it. */
export const scratch = '/mnt/scratch';

/** Empty files cost the kernel memory that no size limit counts. */
const maxFiles = 4_096;

/** Shows what it is given at `/mnt/0`, `/mnt/1`, … beside a fresh scratch folder, then becomes the rest. */
const script = `
set -e
mount -t tmpfs -o mode=0755 none /mnt
mkdir ${scratch}
mount -t tmpfs -o "mode=1777,nosuid,nodev,noexec,nr_inodes=${maxFiles},size=$1" none ${scratch}
shift
number=0
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir "/mnt/$number"; else : > "/mnt/$number"; fi
  mount --bind "$1" "/mnt/$number"
  number=$((number + 1))
  shift
done
shift
exec "$@"
`;

export interface Stage {
  /** The beginning of a command: everything behind it runs on the stage. */
  readonly command: readonly string[];
  /** The binds, with sources as they are on the stage. */
  readonly binds: readonly Bind[];
}

/**
 * A mount namespace for one run. In it stand the scratch folder, whose limits bubblewrap cannot set, and what is out of
 * reach once root is dropped, such as an interpreter under `/root/.pyenv`.
 */
export async function stageFor(binds: readonly Bind[], diskBytes: number, isRoot: boolean): Promise<Stage> {
  const shown: string[] = [];
  const onStage: Bind[] = [];
  for (const bind of binds) {
    if (!isRoot || (await everyoneReaches(bind.source))) onStage.push(bind);
    else onStage.push({ source: `/mnt/${shown.push(bind.source) - 1}`, target: bind.target });
  }
  const namespaces = isRoot ? ['--mount'] : ['--user', '--map-root-user', '--mount'];
  const command = ['unshare', ...namespaces, '--', 'sh', '-c', script, 'sh', String(diskBytes), ...shown, '--'];
  return { command, binds: onStage };
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
