import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { asNobody, runsAsRoot } from '../../../src/tools/sandbox/nobody.ts';

const run = promisify(execFile);
const script = fileURLToPath(new URL('./bare-gateway.ts', import.meta.url));

const lateProgram = fileURLToPath(new URL('./late-program.ts', import.meta.url));

/** Runs a program as somebody whom the kernel grants no user namespace, as in many a container. */
function withoutNamespaces(...command: readonly string[]) {
  const [program = '', ...args] = [
    ...(runsAsRoot() ? asNobody : []),
    ...['unshare', '--user', '--map-current-user', '--keep-caps', '--', 'sh', '-c'],
    'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all -- "$@"',
    ...['sh', ...command],
  ];
  return run(program, args, { cwd: dirname(script), env: { PATH: '/usr/bin:/bin', HOME: '/tmp' } });
}

test('without namespaces code runs only where the operator accepts that, and the debugger stays shut', async () => {
  const { stdout } = await withoutNamespaces(process.execPath, '--inspect-port=0', '--import', 'tsx', script);
  const { refused, ...accepted } = JSON.parse(stdout);
  expect(refused).toMatchObject({ available: false, reason: expect.stringContaining('accept_weak_isolation: true') });
  expect(accepted).toEqual({ name: 'pyodide, weakly isolated', stdout: '42\n', debuggerIsOpen: false });
}, 120_000);

test('a program that is killed for its time is told, even where nothing else keeps the process alive', async () => {
  const { stdout } = await run(process.execPath, ['--import', 'tsx', lateProgram]);
  expect(stdout).toBe('timeout');
}, 120_000);

test('a Node that does not ignore the signal opens its debugger', async () => {
  const code = 'process.stdout.write("up"); setTimeout(() => {}, 60_000)';
  const child = spawn(process.execPath, ['--inspect-port=0', '-e', code], { stdio: ['ignore', 'pipe', 'pipe'] });
  await once(child.stdout, 'data');
  child.kill('SIGUSR1');
  const [said] = await once(child.stderr, 'data');
  child.kill('SIGKILL');
  expect(String(said)).toMatch(/^Debugger listening on ws:\/\/127\.0\.0\.1:/);
});
