import { createBubblewrapSandbox, environment } from './bubblewrap.ts';
import { findPython } from './python-runtime.ts';
import { type CodeLimits, type CodeSandbox, defaultCodeLimits } from './sandbox.ts';
import { isFilterArchitecture } from './seccomp.ts';
import { selfTest } from './self-test.ts';

export interface SandboxOptions {
  /** The interpreter; left out: `python3` of the path, else the system's. */
  readonly python?: string;
  readonly limits?: Partial<CodeLimits>;
  readonly parallel?: number;
}

/** A sandbox that has just resisted its own attacks, or why there is none: then no code is run at all. */
export type SandboxAvailability =
  | { readonly available: true; readonly sandbox: CodeSandbox }
  | { readonly available: false; readonly reason: string };

export async function openSandbox(options: SandboxOptions = {}): Promise<SandboxAvailability> {
  const pythons = options.python === undefined ? ['python3', '/usr/bin/python3'] : [options.python];
  const reasons: string[] = [];
  for (const python of pythons) {
    try {
      return { available: true, sandbox: await provenSandbox(python, options) };
    } catch (error) {
      reasons.push(`${python}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { available: false, reason: reasons.join('; ') };
}

async function provenSandbox(python: string, options: SandboxOptions): Promise<CodeSandbox> {
  if (process.platform !== 'linux') throw new Error('the sandbox needs Linux');
  const architecture = process.arch;
  if (!isFilterArchitecture(architecture)) throw new Error(`no system call filter for ${architecture}`);
  const runtime = await findPython(python);
  const limits = { ...defaultCodeLimits, ...options.limits };
  const build = (own: CodeLimits) =>
    createBubblewrapSandbox({ runtime, architecture, limits: own, parallel: options.parallel ?? 2 });
  const findings = await selfTest(await build({ ...limits, wallMs: 10_000, cpuSeconds: 1 }), [
    ...Object.keys(environment),
    'PWD',
  ]);
  if (findings.length > 0) throw new Error(`self-test failed: ${findings.join(', ')}`);
  return build(limits);
}
