import { readdirSync, readlinkSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createPyodideSandbox } from '../../../src/tools/sandbox/pyodide.ts';
import { openPyodide, type PyodideRuntime } from '../../../src/tools/sandbox/pyodide-runtime.ts';
import { type CodeLimits, type CodeSandbox, defaultCodeLimits } from '../../../src/tools/sandbox/sandbox.ts';
import type { Walls } from '../../../src/tools/sandbox/walls.ts';
import { bridgeAttacks, socketRoute, walk } from './bridge-attacks.ts';
import { type Bait, sightings, startBait } from './host-watch.ts';
import { inPlainPyodide } from './plain-pyodide.ts';

const never = new AbortController().signal;
const limits: CodeLimits = { ...defaultCodeLimits, memoryBytes: 256 * 1024 ** 2 + 3, cpuSeconds: 60, wallMs: 90_000 };
const marker = String(limits.memoryBytes);

let runtime: PyodideRuntime;
let bait: Bait;
const sandboxes: CodeSandbox[] = [];

async function sandboxBehind(walls: Walls): Promise<CodeSandbox> {
  const sandbox = await createPyodideSandbox({ runtime, walls, limits, parallel: 2 });
  sandboxes.push(sandbox);
  return sandbox;
}

beforeAll(async () => {
  runtime = await openPyodide();
}, 120_000);
afterAll(() => runtime.close());

beforeEach(async () => {
  bait = await startBait();
  process.env['ORCHESTRA_TEST_SECRET'] = bait.secret;
});
afterEach(() => {
  for (const sandbox of sandboxes.splice(0)) sandbox.close();
  delete process.env['ORCHESTRA_TEST_SECRET'];
  bait.close();
});

describe('the seal alone, without namespaces', () => {
  test.each(bridgeAttacks)('holds code that $name', async ({ code, escaped }) => {
    const sandbox = await sandboxBehind('none');
    const { status, stdout, stderr } = await sandbox.execute({ code: code(bait), signal: never });
    expect(status).not.toBe('unavailable');
    expect(escaped(bait, stdout + stderr)).toBe(false);
  });

  test('holds code that turns the sockets of Node on', async () => {
    const sandbox = await sandboxBehind('none');
    const { status, stdout } = await sandbox.execute({ code: socketRoute(bait.port), signal: never });
    expect([status, stdout.trim().split('\n').length]).toEqual(['ok', expect.any(Number)]);
    expect(bait.contacts()).toBe(0);
  });

  test('lets Python reach no object of the realm in which Node lives', async () => {
    const sandbox = await sandboxBehind('none');
    const { stdout, stderr } = await sandbox.execute({ code: walk, signal: never });
    const [count, foreign] = stdout.trim().split(/ (.*)/);
    expect([foreign, stderr]).toEqual(['[]', '']);
    expect(Number(count)).toBeGreaterThan(5_000);
  }, 120_000);
});

test('each of these attacks gets out of a plain Pyodide', async () => {
  const printed = await inPlainPyodide(bridgeAttacks.map(({ code }) => code(bait)));
  await expect
    .poll(() => bridgeAttacks.filter(({ escaped }) => !escaped(bait, printed)).map(({ name }) => name))
    .toEqual([]);
  expect(printed.split(bait.secret)).toHaveLength(bridgeAttacks.length - 1);
}, 120_000);

describe('the namespaces', () => {
  test('show a program that runs no network, no process and no file of the host', async () => {
    const sandbox = await sandboxBehind('namespaces');
    const leaving = new AbortController();
    const run = sandbox.execute({ code: 'while True: pass', signal: leaving.signal });
    await expect.poll(() => sightings(marker).length, { timeout: 15_000 }).toBe(1);
    const pid = sightings(marker)[0]?.pid ?? '';
    const kinds = ['user', 'net', 'pid', 'mnt', 'ipc', 'uts'];
    const shared = kinds.filter(
      (kind) => readlinkSync(`/proc/${pid}/ns/${kind}`) === readlinkSync(`/proc/self/ns/${kind}`),
    );
    expect(shared).toEqual([]);
    const root = readdirSync(`/proc/${pid}/root`, { recursive: true, encoding: 'utf8' });
    const files = root.filter((path) => !root.some((other) => other.startsWith(`${path}/`)));
    expect(files.filter((path) => !/(\/node|\.so[.\d]*)$/.test(path))).toEqual([]);
    leaving.abort();
    await expect(run).rejects.toMatchObject({ name: 'AbortError' });
  });
});

describe('programs', () => {
  test('tell errors with the line that made them', async () => {
    const sandbox = await sandboxBehind('namespaces');
    const { status, stdout, stderr } = await sandbox.execute({ code: 'print("so far")\n1 / 0', signal: never });
    expect([status, stdout]).toEqual(['exception', 'so far\n']);
    expect(stderr).toMatch(/^Traceback.*\n {2}File "\/job\/main.py", line 2, in <module>\n {4}1 \/ 0\n/);
    expect(stderr).toMatch(/ZeroDivisionError: division by zero\n$/);
  });

  test.each([
    ['import sys\nsys.exit()', 'ok', ''],
    ['import sys\nsys.exit(3)', 'exception', ''],
    ['import sys\nsys.exit("no root")', 'exception', 'no root\n'],
  ])('end as they say: %j', async (code, status, stderr) => {
    const sandbox = await sandboxBehind('namespaces');
    expect(await sandbox.execute({ code, signal: never })).toMatchObject({ status, stderr });
  });

  test('get numbers of chance that differ from run to run', async () => {
    const sandbox = await sandboxBehind('namespaces');
    const code = 'import os, random\nprint(os.urandom(8), random.random())';
    const first = await sandbox.execute({ code, signal: never });
    const second = await sandbox.execute({ code, signal: never });
    expect(first.status).toBe('ok');
    expect(second.stdout).not.toBe(first.stdout);
  });

  test('run at the same time, each in a process of its own', async () => {
    const sandbox = await sandboxBehind('namespaces');
    const code = 'import builtins\nprint(hasattr(builtins, "mark"))\nbuiltins.mark = 1';
    const results = await Promise.all([1, 2, 3].map(() => sandbox.execute({ code, signal: never })));
    expect(results.map(({ stdout }) => stdout)).toEqual(Array(3).fill('False\n'));
  });
});
