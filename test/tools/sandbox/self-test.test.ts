import { execFile } from 'node:child_process';
import { expect, test } from 'vitest';
import { openSandbox } from '../../../src/tools/sandbox/open-sandbox.ts';
import { type CodeResult, type CodeSandbox, defaultCodeLimits } from '../../../src/tools/sandbox/sandbox.ts';
import { selfTest } from '../../../src/tools/sandbox/self-test.ts';

/** What a host without any isolation would be: the code simply runs. */
const noSandbox = (execute: (code: string) => Promise<CodeResult>): CodeSandbox => ({
  name: 'none',
  pythonVersion: '3',
  packages: [],
  limits: { ...defaultCodeLimits, memoryBytes: 64 * 1024 ** 2 },
  execute: ({ code }) => execute(code),
  close: () => {},
});

function onHost(code: string): Promise<CodeResult> {
  if (code.startsWith('while True')) return Promise.resolve({ status: 'ok', stdout: '', stderr: '', durationMs: 1 });
  return new Promise((resolve) => {
    execFile('python3', ['-c', code], (error, stdout, stderr) =>
      resolve({ status: error ? 'exception' : 'ok', stdout, stderr, durationMs: 1 }),
    );
  });
}

test('the self-test names every hole of a sandbox that holds nothing', async () => {
  expect(await selfTest(noSandbox(onHost), [])).toEqual([
    'it reached a listener of the host',
    'it read a file of the host',
    'it saw a variable of the host',
    'it made a process',
    'it went over its memory limit',
    'an endless loop was not stopped',
  ]);
});

test('the self-test believes the listener, not the code', async () => {
  const silent = async (code: string): Promise<CodeResult> => {
    const result = await onHost(code);
    return code.startsWith('print') ? result : { ...result, stdout: 'finished\n' };
  };
  expect(await selfTest(noSandbox(silent), [])).toContain('it reached a listener of the host');
});

test('the self-test says so when the code does not run at all', async () => {
  const broken = async (): Promise<CodeResult> => ({
    status: 'unavailable',
    stdout: '',
    stderr: 'no namespaces',
    durationMs: 1,
  });
  expect(await selfTest(noSandbox(broken), [])).toEqual(['it cannot run Python: no namespaces']);
});

test('without an interpreter there is no sandbox, and the reason is told', async () => {
  const opened = await openSandbox({ backend: 'bubblewrap', python: 'no-such-python' });
  expect(opened).toEqual({ available: false, reason: 'no-such-python: spawn no-such-python ENOENT' });
});

test('with the interpreter of the system there is a sandbox', async () => {
  const opened = await openSandbox({ python: '/usr/bin/python3' });
  if (!opened.available) throw new Error(opened.reason);
  const { stdout } = await opened.sandbox.execute({
    code: 'import decimal, threading, asyncio\nasync def answer(): return 42\nprint(asyncio.run(answer()))',
    signal: new AbortController().signal,
  });
  expect(stdout).toBe('42\n');
});

test('numpy, sympy and mpmath work inside wherever the host has them', async () => {
  const opened = await openSandbox();
  if (!opened.available) throw new Error(opened.reason);
  const { sandbox } = opened;
  const onTheHost = await onHost(
    'import importlib.util\nfor name in ("numpy", "sympy", "mpmath"):\n  if importlib.util.find_spec(name): print(name)',
  );
  expect(sandbox.packages).toEqual(onTheHost.stdout.split('\n').filter(Boolean));
  const uses: Record<string, string> = {
    numpy: 'import numpy\nassert round(numpy.linalg.det(numpy.eye(64) * 2) / 2**64) == 1',
    sympy: 'import sympy\nx = sympy.Symbol("x")\nassert sympy.integrate(x**2) == x**3 / 3',
    mpmath: 'import mpmath\nassert mpmath.mpf(1) / 2 == 0.5',
  };
  const code = [...sandbox.packages.map((name) => uses[name]), 'print("done")'].join('\n');
  const { stdout, stderr } = await sandbox.execute({ code, signal: new AbortController().signal });
  expect([stdout, stderr]).toEqual(['done\n', '']);
});
