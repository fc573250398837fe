import { createBubblewrapSandbox, environment } from './bubblewrap.ts';
import { createPyodideSandbox } from './pyodide.ts';
import { openPyodide, type PyodideRuntime } from './pyodide-runtime.ts';
import { findPython } from './python-runtime.ts';
import { type CodeLimits, type CodeSandbox, defaultCodeLimits } from './sandbox.ts';
import { isFilterArchitecture } from './seccomp.ts';
import { selfTest } from './self-test.ts';
import type { Walls } from './walls.ts';

export interface SandboxOptions {
  /** `auto`: bubblewrap with a Python of the host, else Pyodide. */
  readonly backend?: 'auto' | 'bubblewrap' | 'pyodide';
  /** Lets Pyodide run where the kernel holds nothing back and only its own seal does. */
  readonly acceptWeakIsolation?: boolean;
  /** The interpreter for bubblewrap; left out: `python3` of the path, else the system's. */
  readonly python?: string;
  readonly limits?: Partial<CodeLimits>;
  readonly parallel?: number;
}

/** A sandbox that has just resisted its own attacks, or why there is none: then no code is run at all. */
export type SandboxAvailability =
  | { readonly available: true; readonly sandbox: CodeSandbox }
  | { readonly available: false; readonly reason: string };

interface Candidate {
  readonly name: string;
  readonly open: () => Promise<CodeSandbox>;
}

export async function openSandbox(options: SandboxOptions = {}): Promise<SandboxAvailability> {
  const reasons: string[] = [];
  for (const { name, open } of candidates(options)) {
    try {
      return { available: true, sandbox: await open() };
    } catch (error) {
      reasons.push(`${name}: ${messageOf(error)}`);
    }
  }
  return { available: false, reason: reasons.join('; ') };
}

function candidates(options: SandboxOptions): readonly Candidate[] {
  const { backend = 'auto', python } = options;
  const settings = {
    limits: { ...defaultCodeLimits, ...options.limits },
    parallel: options.parallel ?? 2,
  };
  const pythons = python === undefined ? ['python3', '/usr/bin/python3'] : [python];
  const bubblewrap = pythons.map((name) => ({ name, open: () => openBubblewrap(name, settings) }));
  const weak = options.acceptWeakIsolation ?? false;
  const pyodide = { name: 'pyodide', open: () => openPyodideSandbox(weak, settings) };
  return [...(backend === 'pyodide' ? [] : bubblewrap), ...(backend === 'bubblewrap' ? [] : [pyodide])];
}

interface Settings {
  readonly limits: CodeLimits;
  readonly parallel: number;
}

async function openBubblewrap(python: string, { limits, parallel }: Settings): Promise<CodeSandbox> {
  demandLinux();
  const architecture = process.arch;
  if (!isFilterArchitecture(architecture)) throw new Error(`no system call filter for ${architecture}`);
  const runtime = await findPython(python);
  const build = (own: CodeLimits) => createBubblewrapSandbox({ runtime, architecture, limits: own, parallel });
  return proven(build, limits, [...Object.keys(environment), 'PWD']);
}

async function openPyodideSandbox(acceptWeakIsolation: boolean, settings: Settings): Promise<CodeSandbox> {
  demandLinux();
  const runtime = await openPyodide();
  try {
    return await behindWalls('namespaces', runtime, settings).catch((error: unknown) => {
      if (acceptWeakIsolation) return behindWalls('none', runtime, settings);
      throw new Error(
        `the kernel gives it no namespaces of its own (${messageOf(error)}), and its seal alone needs \`accept_weak_isolation: true\``,
      );
    });
  } catch (error) {
    runtime.close();
    throw error;
  }
}

async function behindWalls(
  walls: Walls,
  runtime: PyodideRuntime,
  { limits, parallel }: Settings,
): Promise<CodeSandbox> {
  const build = (own: CodeLimits) => createPyodideSandbox({ runtime, walls, limits: own, parallel });
  const sandbox = await proven(build, limits, ['HOME']);
  if (walls === 'none') ignoreDebugSignal();
  const close = () => {
    sandbox.close();
    runtime.close();
  };
  return { ...sandbox, close };
}

/**
 * Node opens its debugger when signalled, and code that had broken out could signal us wherever it has our user. Never
 * taken back: without a listener the signal would end the process from then on.
 */
function ignoreDebugSignal(): void {
  if (process.listenerCount('SIGUSR1') === 0) process.on('SIGUSR1', () => {});
}

/** Attacks it with limits small enough that an endless loop ends soon, then builds it with those it is meant to have. */
async function proven(
  build: (limits: CodeLimits) => Promise<CodeSandbox>,
  limits: CodeLimits,
  visibleVariables: readonly string[],
): Promise<CodeSandbox> {
  const attacked = await build({ ...limits, wallMs: 20_000, cpuSeconds: 1 });
  try {
    const findings = await selfTest(attacked, visibleVariables);
    if (findings.length > 0) throw new Error(`self-test failed: ${findings.join(', ')}`);
  } finally {
    attacked.close();
  }
  return build(limits);
}

function demandLinux(): void {
  if (process.platform !== 'linux') throw new Error('the sandbox needs Linux');
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
