import { execFile } from 'node:child_process';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openSandbox } from '../../../src/tools/sandbox/open-sandbox.ts';
import { createPyodideSandbox } from '../../../src/tools/sandbox/pyodide.ts';
import { openPyodide } from '../../../src/tools/sandbox/pyodide-runtime.ts';
import { type CodeLimits, type CodeSandbox, defaultCodeLimits } from '../../../src/tools/sandbox/sandbox.ts';
import { burdens, escapes } from './attacks.ts';
import { type Bait, sightings, startBait, watching } from './host-watch.ts';

/** The same attacks on every sandbox; on Pyodide also without the namespaces, so that its seal is tried on its own. */
interface Subject {
  readonly name: string;
  /** Part of the command line of exactly its processes. */
  readonly marker: string;
  readonly limits: CodeLimits;
  readonly open: (limits: CodeLimits) => Promise<CodeSandbox>;
  /** Node's own memory counts with the program's. */
  readonly residentBytes: number;
}

const mebibyte = 1024 ** 2;
const limitsWith = (memoryBytes: number, threads: number): CodeLimits => ({
  ...defaultCodeLimits,
  cpuSeconds: 2,
  wallMs: 8_000,
  memoryBytes,
  threads,
  diskBytes: 8 * mebibyte,
  outputBytes: 10_000,
  errorBytes: 1_000,
});

async function opened(...options: Parameters<typeof openSandbox>): Promise<CodeSandbox> {
  const result = await openSandbox(...options);
  if (!result.available) throw new Error(result.reason);
  return result.sandbox;
}

async function withoutWalls(limits: CodeLimits): Promise<CodeSandbox> {
  const runtime = await openPyodide();
  const sandbox = await createPyodideSandbox({ runtime, walls: 'none', limits, parallel: 2 });
  const close = () => {
    sandbox.close();
    runtime.close();
  };
  return { ...sandbox, close };
}

const subjects: readonly Subject[] = [
  {
    name: 'bubblewrap',
    marker: '(21, 21)',
    limits: limitsWith(256 * mebibyte, 21),
    open: (limits) => opened({ backend: 'bubblewrap', limits }),
    residentBytes: 256 * mebibyte,
  },
  {
    name: 'Pyodide',
    marker: String(256 * mebibyte + 1),
    limits: limitsWith(256 * mebibyte + 1, 21),
    open: (limits) => opened({ backend: 'pyodide', limits }),
    residentBytes: 768 * mebibyte,
  },
  {
    name: 'Pyodide without namespaces',
    marker: String(256 * mebibyte + 2),
    limits: limitsWith(256 * mebibyte + 2, 21),
    open: withoutWalls,
    residentBytes: 768 * mebibyte,
  },
];

const nobody = '65534';
const never = new AbortController().signal;
let bait: Bait;

beforeEach(async () => {
  bait = await startBait();
  process.env['ORCHESTRA_TEST_SECRET'] = bait.secret;
});

afterEach(() => {
  delete process.env['ORCHESTRA_TEST_SECRET'];
  bait.close();
});

describe.each(subjects)('on $name', ({ marker, limits, open, residentBytes }) => {
  let sandbox: CodeSandbox;
  beforeAll(async () => {
    sandbox = await open(limits);
  }, 120_000);
  afterAll(() => sandbox.close());

  test.each(escapes)('code that $name fails', async ({ code, escaped }) => {
    const { status, stdout, stderr } = await sandbox.execute({ code: code(bait), signal: never });
    expect(status).not.toBe('unavailable');
    expect(escaped(bait, stdout + stderr)).toBe(false);
  });

  test.each(burdens)('code that $name only ends itself', async ({ code, expectEnd }) => {
    const lingering = `import time\ntime.sleep(0.1)\n${code}`;
    const { result, seen } = await watching(marker, sandbox.execute({ code: lingering, signal: never }));
    expectEnd(result, limits);
    const all = seen.flat();
    expect(all.length).toBeGreaterThan(0);
    expect([...new Set(all.map(({ uid }) => uid))]).toEqual([nobody]);
    expect(Math.max(...seen.map((now) => now.length))).toBe(1);
    expect(Math.max(...all.map((sighting) => sighting.residentBytes))).toBeLessThanOrEqual(residentBytes);
  });

  test('code finds nothing of an earlier run', async () => {
    const leave =
      'import builtins, os\nbuiltins.left = 1\nopen("/tmp/left", "w").write("x")\nprint(os.listdir("/tmp"))';
    const look = 'import builtins, os\nprint(hasattr(builtins, "left"), os.listdir("/tmp"))';
    expect((await sandbox.execute({ code: leave, signal: never })).stdout).toBe("['left']\n");
    expect((await sandbox.execute({ code: look, signal: never })).stdout).toBe('False []\n');
  });

  test('a fired signal kills the code at once and is thrown', async () => {
    const leaving = new AbortController();
    const run = sandbox.execute({ code: 'print("running")\nwhile True: pass', signal: leaving.signal });
    await expect.poll(() => sightings(marker).length, { timeout: 15_000 }).toBe(1);
    const [before] = sightings(marker);
    leaving.abort();
    await expect(run).rejects.toMatchObject({ name: 'AbortError' });
    await expect.poll(() => sightings(marker).some(({ pid }) => pid === before?.pid)).toBe(false);
  });

  test('nothing remains of a closed sandbox', async () => {
    const closing = await open(limits);
    await closing.execute({ code: 'print(1)', signal: never });
    closing.close();
    sandbox.close();
    await expect.poll(() => sightings(marker), { timeout: 10_000 }).toEqual([]);
  }, 120_000);
});

describe('on the host itself', () => {
  test.each(escapes)('code that $name succeeds', async ({ code, escaped }) => {
    const output = await onHost(code(bait));
    await expect.poll(() => escaped(bait, output)).toBe(true);
  });
});

/** The host's own Python. The code may fail after it has done its harm. */
function onHost(code: string): Promise<string> {
  return new Promise((resolve) => {
    execFile('python3', ['-c', code], { cwd: '/', maxBuffer: 2 ** 26, timeout: 10_000 }, (_error, stdout, stderr) =>
      resolve(stdout + stderr),
    );
  });
}
