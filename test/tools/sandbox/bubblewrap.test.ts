import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { bubblewrapCommand } from '../../../src/tools/sandbox/bubblewrap.ts';
import { runConfined } from '../../../src/tools/sandbox/confined-process.ts';
import { openSandbox } from '../../../src/tools/sandbox/open-sandbox.ts';
import { findPython, type PythonRuntime } from '../../../src/tools/sandbox/python-runtime.ts';
import { type CodeSandbox, defaultCodeLimits } from '../../../src/tools/sandbox/sandbox.ts';
import { startBait } from './host-watch.ts';

/** What the bubblewrap sandbox shows of the host: nothing beyond what Python needs. */

let sandbox: CodeSandbox;
let runtime: PythonRuntime;

beforeAll(async () => {
  const opened = await openSandbox({ backend: 'bubblewrap', limits: { cpuSeconds: 3, wallMs: 8_000 } });
  if (!opened.available) throw new Error(opened.reason);
  sandbox = opened.sandbox;
  runtime = await findPython('python3');
}, 60_000);

async function inSandbox(code: string): Promise<string> {
  const { stdout, stderr } = await sandbox.execute({ code, signal: new AbortController().signal });
  return stdout + stderr;
}

test('code finds only its three standard descriptors, whatever the gateway left open', async () => {
  const code = [
    'import os',
    'for fd in range(3, 128):',
    '  try: print(fd, os.read(fd, 100))',
    '  except OSError as error: assert error.errno == 9',
  ].join('\n');
  const bait = await startBait();
  const command = await bubblewrapCommand({ runtime, architecture: 'x64', limits: defaultCodeLimits, parallel: 1 });
  const run = (inner: readonly string[]) =>
    runConfined({
      command: ['sh', '-c', 'exec 9<"$1"; shift; exec "$@" 4</dev/null', 'sh', bait.secretPath, ...inner],
      inputs: [Buffer.from(code)],
      wallMs: 8_000,
      outputBytes: 65_536,
      errorBytes: 65_536,
      signal: new AbortController().signal,
    });
  const withoutFilter = command.filter((word, index) => word !== '--seccomp' && command[index - 1] !== '--seccomp');
  expect(await run(withoutFilter)).toMatchObject({ exitCode: 0, stdout: '', stderr: '' });
  expect((await run(['/usr/bin/env', 'PATH=/usr/bin:/bin', 'cat', '/dev/fd/9'])).stdout).toBe(bait.secret);
  bait.close();
});

test('code cannot change the interpreter or its library, here or for the next run', async () => {
  const library = runtime.binds.find(({ target }) => target.startsWith('/python/lib/'))?.source ?? '';
  const before = readFileSync(join(library, 'string.py'), 'utf8');
  const output = await inSandbox(
    'import string\nfor action in (lambda: open(string.__file__, "a").write("#"), lambda: __import__("os").remove(string.__file__)):\n  try: action()\n  except OSError as error: print(error.errno)',
  );
  expect(output.trim().split('\n')).toHaveLength(2);
  expect(readFileSync(join(library, 'string.py'), 'utf8')).toBe(before);
});

test('code finds nothing of an earlier run', async () => {
  const write = 'import os\nopen("/tmp/left", "w").write("x")\nprint(os.listdir("/tmp"))';
  expect(await inSandbox(write)).toBe("['left']\n");
  expect(await inSandbox('import os\nprint(os.listdir("/tmp"))')).toBe('[]\n');
});

test('code sees no folder of the host', async () => {
  expect((await inSandbox('import os\nprint(*sorted(os.listdir("/")))')).trim().split(' ').sort()).toEqual(
    [...new Set(['dev', 'job', 'tmp', ...runtime.binds.map(({ target }) => target.split('/')[1] ?? '')])].sort(),
  );
});

test('code cannot write anywhere but its scratch folder', async () => {
  const output = await inSandbox(
    'import os\nfor top, folders, files in os.walk("/"):\n  if top.startswith("/tmp"): continue\n  try: open(os.path.join(top, "x"), "w"); print("wrote", top)\n  except OSError: pass\nprint("done")',
  );
  expect(output).toBe('done\n');
});
