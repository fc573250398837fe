import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { asNobody, runsAsRoot } from './nobody.ts';
import type { CodeLimits } from './sandbox.ts';

/**
 * What stands between a Node process and the host. `namespaces`: the kernel shows it no network, no other process and
 * no file but Node itself. `none`: it has another user where the gateway is root, and its limits; all else is up to it.
 */
export type Walls = 'namespaces' | 'none';

/** An empty root, on which only what is given stands, at its own place and read-only. */
const stage = `
set -e
mount -t tmpfs -o mode=0755,size=1m none /mnt
while [ "$1" != -- ]; do
  mkdir -p "/mnt\${1%/*}"
  : > "/mnt$1"
  mount --bind "$1" "/mnt$1"
  shift
done
shift
mount -o remount,ro,bind /mnt
exec "$@"
`;

/** Beyond the memory of Python: Node's own, and what Python writes to its scratch folder. */
const nodeBytes = 384 * 1024 ** 2;
/** Of processor time, for starting. */
const startSeconds = 3;

/** The beginning of a command, with Node as its end: whatever follows are Node's arguments. */
export async function nodeBehind(walls: Walls, limits: CodeLimits): Promise<readonly string[]> {
  const node = process.execPath;
  const giveUpRoot = runsAsRoot() ? asNobody : [];
  if (walls === 'none') return [...giveUpRoot, ...diesWithUs, ...limited(limits), node];
  const mapped = runsAsRoot() ? [] : ['--user', '--map-root-user'];
  return [
    ...diesWithUs,
    ...[
      'unshare',
      ...mapped,
      '--mount',
      '--net',
      '--pid',
      '--ipc',
      '--uts',
      '--cgroup',
      '--fork',
      '--kill-child',
      '--',
    ],
    ...['sh', '-c', stage, 'sh', node, ...(await sharedLibraries(node)), '--'],
    ...giveUpRoot,
    ...limited(limits),
    // A user namespace in which it is nobody takes the rights away that the stage was built with.
    ...['unshare', '--user', '--root=/mnt', '--wd=/', '--', node],
  ];
}

const diesWithUs = ['setpriv', '--pdeathsig=KILL', '--'] as const;

/** Address space is no measure here: WebAssembly reserves gigabytes of it that it never uses. */
const limited = ({ memoryBytes, diskBytes, cpuSeconds }: CodeLimits): readonly string[] => [
  'prlimit',
  `--data=${memoryBytes + diskBytes + nodeBytes}`,
  `--cpu=${cpuSeconds + startSeconds}`,
  '--fsize=0',
  '--nofile=64',
  '--core=0',
  '--',
];

const run = promisify(execFile);

async function sharedLibraries(program: string): Promise<string[]> {
  const { stdout } = await run('ldd', [program], { timeout: 30_000 });
  return [...stdout.matchAll(/(?:=> |^\s*)(\/\S+) \(0x/gm)].map(([, path = '']) => path);
}
