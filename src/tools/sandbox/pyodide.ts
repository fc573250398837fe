import { throwIfCancelled } from '../cancelled.ts';
import { createLanes } from '../lanes.ts';
import { codeResult, unavailable } from './code-result.ts';
import { type ConfinedProcess, startConfined } from './confined-process.ts';

import type { PyodideRuntime } from './pyodide-runtime.ts';
import type { CodeJob, CodeLimits, CodeResult, CodeSandbox } from './sandbox.ts';
import { nodeBehind, type Walls } from './walls.ts';

export interface PyodideOptions {
  readonly runtime: PyodideRuntime;
  readonly walls: Walls;
  readonly limits: CodeLimits;
  /** Runs at the same time; more wait their turn. */
  readonly parallel: number;
}

const jobDescriptor = 3;
const startMs = 60_000;

/** Python compiled to WebAssembly, a process for each program. One process is kept ready, since starting takes longest. */
export async function createPyodideSandbox({ runtime, walls, limits, parallel }: PyodideOptions): Promise<CodeSandbox> {
  const command = [...(await nodeBehind(walls, limits)), ...runtime.nodeArguments(limits.memoryBytes)];
  const lanes = createLanes(parallel);
  const start = () => startInterpreter(command, runtime.descriptors, limits);
  let isClosed = false;
  let ready: Interpreter | undefined = start();

  const runOne = async (code: string, signal: AbortSignal): Promise<CodeResult> => {
    const mine = ready?.process.isRunning() ? ready : start();
    if (mine === ready) ready = undefined;
    try {
      return await runIn(mine, code, limits.wallMs, signal);
    } finally {
      mine.process.kill();
      if (!isClosed) ready ??= start();
    }
  };

  const execute = async ({ code, signal }: CodeJob): Promise<CodeResult> => {
    try {
      return await lanes.run(signal, () => runOne(code, signal));
    } catch (thrown) {
      throwIfCancelled(signal);
      return unavailable(thrown);
    }
  };
  const close = () => {
    isClosed = true;
    ready?.process.kill();
  };
  const name = walls === 'namespaces' ? 'pyodide' : 'pyodide, weakly isolated';
  return { name, pythonVersion: runtime.version, packages: [], limits, execute, close };
}

interface Interpreter {
  readonly process: ConfinedProcess;
  /** False when it ended before it could take a program. */
  readonly started: Promise<boolean>;
  /** Whether the program came to an end of its own. A launcher between us and it does not always tell a kill. */
  readonly isDone: () => boolean;
}

/** What the inside says on its pipe, in this order. */
const words = { ready: 'r', ended: 'e' };

function startInterpreter(command: readonly string[], descriptors: readonly number[], limits: CodeLimits): Interpreter {
  const { outputBytes, errorBytes } = limits;
  const process = startConfined({ command, descriptors: ['pipe', ...descriptors], outputBytes, errorBytes });
  process.unref();
  const job = process.pipe(jobDescriptor);
  let said = '';
  const started = new Promise<boolean>((resolve) => {
    job.on('data', (bytes: Buffer) => {
      said += bytes.toString('latin1');
      resolve(said.startsWith(words.ready));
    });
    job.once('close', () => resolve(false));
  });
  return { process, started, isDone: () => said.endsWith(words.ended) };
}

async function runIn(
  { process, started, isDone }: Interpreter,
  code: string,
  wallMs: number,
  signal: AbortSignal,
): Promise<CodeResult> {
  // Once a timer has killed it, nothing else keeps our process waiting for its end.
  process.ref();
  if (!(await startedInTime(process, started, signal))) {
    const { stderr } = await process.end(startMs, signal);
    return unavailable(stderr.trim() || 'the interpreter did not start');
  }
  process.pipe(jobDescriptor).end(code);
  const end = await process.end(wallMs, signal);
  return codeResult(isDone() ? end : { ...end, exitCode: killed, stderr: end.stderr.replace(launcherComplaint, '') });
}

const killed = -1;
const launcherComplaint = /unshare: .*\n$/;

async function startedInTime(
  process: ConfinedProcess,
  started: Promise<boolean>,
  signal: AbortSignal,
): Promise<boolean> {
  const timer = setTimeout(process.kill, startMs);
  signal.addEventListener('abort', process.kill, { once: true });
  try {
    return await started;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', process.kill);
  }
}
