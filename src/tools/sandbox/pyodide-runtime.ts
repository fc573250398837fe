import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, extname, join } from 'node:path';
import { z } from 'zod';
import { startConfined } from './confined-process.ts';

/** Pyodide's files and a snapshot of an interpreter that has already started, open for reading. */
export interface PyodideRuntime {
  readonly version: string;
  /** Node's arguments for one sealed interpreter. */
  readonly nodeArguments: (memoryBytes: number) => readonly string[];
  /** What the sealed interpreter finds as its descriptors 4, 5, … */
  readonly descriptors: readonly number[];
  close(): void;
}

const files = ['pyodide.mjs', 'pyodide.asm.mjs', 'pyodide.asm.wasm', 'python_stdlib.zip'] as const;
const makingMs = 120_000;

/** Starts an interpreter once, without a program, and keeps its memory. @throws when it does not start. */
export async function openPyodide(): Promise<PyodideRuntime> {
  const require = createRequire(import.meta.url);
  const folder = dirname(require.resolve('pyodide/package.json'));
  const opened: number[] = [];
  const close = () => opened.splice(0).forEach(closeSync);
  try {
    for (const name of files) opened.push(openSync(join(folder, name), 'r'));
    const { abi_version: abi } = lockFile.parse(
      JSON.parse(readFileSync(join(folder, 'pyodide-lock.json'), 'utf8')),
    ).info;
    const { version, snapshot } = await makeSnapshot([...opened], abi);
    opened.push(snapshot);
    return { version, nodeArguments: (bytes) => nodeArguments('run', bytes, abi), descriptors: opened, close };
  } catch (error) {
    close();
    throw error;
  }
}

const lockFile = z.object({ info: z.object({ abi_version: z.string() }) });

/** The file is gone from its folder before anybody else can name it; what remains is our descriptor. */
async function makeSnapshot(inputs: readonly number[], abi: string): Promise<{ version: string; snapshot: number }> {
  const folder = await mkdtemp(join(tmpdir(), 'orchestra-snapshot-'));
  const path = join(folder, 'snapshot');
  const target = openSync(path, 'wx', 0o600);
  try {
    const maker = startConfined({
      command: [process.execPath, ...nodeArguments('snapshot', 2 ** 31, abi)],
      descriptors: ['pipe', ...inputs, target],
      outputBytes: 100,
      errorBytes: 4_096,
    });
    const { exitCode, stdout, stderr } = await maker.end(makingMs, new AbortController().signal);
    if (exitCode !== 0) throw new Error(`Pyodide does not start: ${stderr.trim() || `exit code ${exitCode}`}`);
    return { version: stdout, snapshot: openSync(path, 'r') };
  } finally {
    closeSync(target);
    await rm(folder, { recursive: true });
  }
}

/** Built without a loader, so the inside is read as text: it lies beside this file, compiled or not. */
function nodeArguments(mode: 'snapshot' | 'run', memoryBytes: number, abi: string): readonly string[] {
  const source = new URL('./sealed-pyodide.ts', import.meta.url).href.replace(/\.ts$/, extname(import.meta.url));
  const inside = readFileSync(new URL(source), 'utf8');
  return [
    ...strictFlags.filter((flag) => process.allowedNodeEnvironmentFlags.has(flag)),
    ...['--disallow-code-generation-from-strings', '--experimental-vm-modules', '--no-warnings'],
    ...['--input-type=module', '--eval', inside, mode, String(memoryBytes), abi],
  ];
}

/** Names of Node's permission model, old and new: nothing is permitted. */
const strictFlags = ['--experimental-permission', '--permission', '--disable-sigusr1'];
