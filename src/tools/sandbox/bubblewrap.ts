import { throwIfCancelled } from '../cancelled.ts';
import { createLanes } from '../lanes.ts';
import { codeResult, unavailable } from './code-result.ts';
import { type ConfinedJob, runConfined } from './confined-process.ts';

import { asNobody, nobody, runsAsRoot } from './nobody.ts';
import { type Bind, inside, type PythonRuntime } from './python-runtime.ts';
import type { CodeJob, CodeLimits, CodeResult, CodeSandbox } from './sandbox.ts';
import { type FilterArchitecture, seccompFilter } from './seccomp.ts';
import { scratch, stageFor } from './stage.ts';

export interface BubblewrapOptions {
  readonly runtime: PythonRuntime;
  readonly architecture: FilterArchitecture;
  readonly limits: CodeLimits;
  /** Runs at the same time; more wait their turn. */
  readonly parallel: number;
}

const script = '/job/main.py';

/**
 * Runs first inside: closes what some library of the gateway may have left open, sets the one limit that counts from
 * the new user namespace on, then makes the model's code the main module.
 */
const bootstrap = (threads: number) =>
  `import os, resource, sys
os.closerange(3, 1 << 20)
resource.setrlimit(resource.RLIMIT_NPROC, (${threads}, ${threads}))
sys.path.append("${inside.packages}")
del os, resource, sys
with open("${script}", "rb") as file: code = compile(file.read(), "${script}", "exec")
del file
exec(code, {"__name__": "__main__", "__file__": "${script}", "__builtins__": __builtins__})`;

export async function createBubblewrapSandbox(options: BubblewrapOptions): Promise<CodeSandbox> {
  const { runtime, limits } = options;
  const filter = seccompFilter(options.architecture);
  const command = await bubblewrapCommand(options);
  const lanes = createLanes(options.parallel);

  const execute = async ({ code, signal }: CodeJob): Promise<CodeResult> => {
    const job: ConfinedJob = {
      command,
      inputs: [Buffer.from(code, 'utf8'), filter],
      wallMs: limits.wallMs,
      outputBytes: limits.outputBytes,
      errorBytes: limits.errorBytes,
      signal,
    };
    try {
      return orUnavailable(codeResult(await lanes.run(signal, () => runConfined(job))));
    } catch (thrown) {
      throwIfCancelled(signal);
      return unavailable(thrown);
    }
  };
  const { version: pythonVersion, packages } = runtime;
  return { name: 'bubblewrap', pythonVersion, packages, limits, execute, close: () => {} };
}

/** The launchers complain on the same stream as the code; code that imitates them spoils only its own result. */
const orUnavailable = (result: CodeResult): CodeResult =>
  result.status === 'exception' && /^(bwrap|prlimit|setpriv|unshare|mount|sh): /m.test(result.stderr)
    ? { ...result, status: 'unavailable' }
    : result;

/** Each program replaces the one before it, so that bubblewrap is our own child and dies with us. */
export async function bubblewrapCommand({ runtime, limits }: BubblewrapOptions): Promise<readonly string[]> {
  const isRoot = runsAsRoot();
  const stage = await stageFor(runtime.binds, limits.diskBytes, isRoot);
  return [
    ...stage.command,
    ...(isRoot ? asNobody : []),
    ...limited(limits),
    ...bubblewrap(runtime, stage.binds, limits.threads),
  ];
}

const limited = (limits: CodeLimits): readonly string[] => [
  'prlimit',
  `--as=${limits.memoryBytes}`,
  `--cpu=${limits.cpuSeconds}`,
  `--fsize=${limits.diskBytes}`,
  '--nofile=128',
  '--core=0',
  '--',
];

/** The root is an empty tmpfs, read-only in the end; there is no /proc, no /sys, no /etc and no program but Python. */
const bubblewrap = (runtime: PythonRuntime, binds: readonly Bind[], threads: number): readonly string[] => [
  'bwrap',
  ...['--unshare-all', '--unshare-user', '--disable-userns', '--uid', nobody, '--gid', nobody, '--cap-drop', 'ALL'],
  ...['--hostname', 'sandbox', '--new-session', '--die-with-parent', '--as-pid-1', '--clearenv'],
  ...binds.flatMap(({ source, target }) => ['--ro-bind', source, target]),
  ...runtime.hidden.flatMap((folder) => ['--tmpfs', folder, '--remount-ro', folder]),
  ...['/dev/null', '/dev/zero', '/dev/urandom', '/dev/random'].flatMap((node) => ['--dev-bind', node, node]),
  ...['--ro-bind-data', '3', script, '--seccomp', '4'],
  ...['--bind', scratch, '/tmp', '--chdir', '/tmp', '--remount-ro', '/'],
  ...Object.entries(environment).flatMap(([name, value]) => ['--setenv', name, value]),
  ...['--', inside.python, '-I', '-B', '-X', 'utf8', '-c', bootstrap(threads)],
];

/** All that the code finds in its environment. One BLAS thread: each more reserves address space that is limited. */
export const environment = {
  HOME: '/tmp',
  LD_LIBRARY_PATH: inside.libraries,
  OPENBLAS_NUM_THREADS: '1',
  OMP_NUM_THREADS: '1',
  MKL_NUM_THREADS: '1',
};
