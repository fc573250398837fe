import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const tsx = createRequire(import.meta.url).resolve('tsx');

/** A folder to work in, and the command line as a person runs it there. */
export interface Workplace {
  readonly folder: string;
  /** Writes a file into the folder and returns its path; objects are written as YAML. */
  write(name: string, content: string | object): string;
  start(words: readonly string[], environment?: Readonly<Record<string, string>>): Running;
  close(): void;
}

export interface Running {
  readonly process: ChildProcess;
  readonly output: () => string;
  readonly errors: () => string;
  /** Resolves once the output so far matches; rejects when the process ends before. */
  printed(pattern: RegExp): Promise<RegExpExecArray>;
  /** The exit code. */
  readonly ended: Promise<number | null>;
}

export function openWorkplace(): Workplace {
  const folder = mkdtempSync(join(tmpdir(), 'orchestra-commands-'));
  const running: ChildProcess[] = [];
  return {
    folder,
    write: (name, content) => {
      const path = join(folder, name);
      writeFileSync(path, typeof content === 'string' ? content : stringify(content));
      return path;
    },
    start: (words, environment = {}) => {
      const child = spawn(process.execPath, ['--import', tsx, main, ...words], {
        cwd: folder,
        // Nothing of ours: what a test does not set is not there.
        env: { PATH: process.env['PATH'], HOME: folder, ...environment },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      running.push(child);
      return follow(child);
    },
    close: () => {
      for (const child of running) child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function follow(child: ChildProcess): Running {
  let [output, errors] = ['', ''];
  child.stdout?.on('data', (bytes: Buffer) => {
    output += bytes.toString();
  });
  child.stderr?.on('data', (bytes: Buffer) => {
    errors += bytes.toString();
  });
  const ended = once(child, 'close').then(([code]) => (typeof code === 'number' ? code : null));
  const hasEnded = ended.then((code) => {
    throw new Error(`it ended with ${code}: ${output}${errors}`);
  });
  hasEnded.catch(() => undefined);
  return {
    process: child,
    output: () => output,
    errors: () => errors,
    ended,
    printed: async (pattern) => {
      for (;;) {
        const found = pattern.exec(output);
        if (found) return found;
        if (child.stdout) await Promise.race([once(child.stdout, 'data'), hasEnded]);
      }
    },
  };
}
