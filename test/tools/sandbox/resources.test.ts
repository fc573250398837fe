import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { openSandbox } from '../../../src/tools/sandbox/open-sandbox.ts';
import type { CodeResult, CodeSandbox } from '../../../src/tools/sandbox/sandbox.ts';
import { sightings, watching } from './host-watch.ts';

/** Attacks on the machine itself, as bubblewrap and its filter stop them. The evidence is what the host's process table shows meanwhile and afterwards. */

const limits = {
  cpuSeconds: 2,
  wallMs: 5_000,
  memoryBytes: 256 * 1024 ** 2,
  diskBytes: 8 * 1024 ** 2,
  outputBytes: 10_000,
  errorBytes: 1_000,
  threads: 23,
};
/** Part of the command line of exactly these runs. */
const marker = '(23, 23)';
const nobody = '65534';

let sandbox: CodeSandbox;

beforeAll(async () => {
  const opened = await openSandbox({ backend: 'bubblewrap', limits });
  if (!opened.available) throw new Error(opened.reason);
  sandbox = opened.sandbox;
}, 60_000);

async function attack(code: string) {
  const signal = new AbortController().signal;
  const { result, seen } = await watching(marker, sandbox.execute({ code, signal }));
  expect(sightings(marker)).toEqual([]);
  const all = seen.flat();
  expect(all.length).toBeGreaterThan(0);
  expect([...new Set(all.map(({ uid }) => uid))]).toEqual([nobody]);
  return { result, all, mostAtOnce: Math.max(...seen.map((now) => now.length)) };
}

/** Keeps the process in sight long enough to be looked at. */
const linger = '\nimport time\ntime.sleep(0.2)';
const ended = (result: CodeResult) => [result.status, result.stdout.trim()];

test('a fork bomb stays one process', async () => {
  const code = 'import os\nfor i in range(200):\n  try: os.fork()\n  except OSError as error: print(error.errno)';
  const { result, mostAtOnce } = await attack(code + linger);
  expect(mostAtOnce).toBe(1);
  expect(result.stdout.trim().split('\n')).toEqual(Array(200).fill('1'));
});

test('a bomb of vfork and clone3 through the C library stays one process', async () => {
  const code =
    'import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfor number in (57, 58, 435, 56):\n  print(libc.syscall(number, 17, 0, 0, 0, 0), ctypes.get_errno())';
  const { result, mostAtOnce } = await attack(code + linger);
  expect(mostAtOnce).toBe(1);
  expect(result.stdout.trim().split('\n')).toEqual(['-1 1', '-1 1', '-1 38', '-1 1']);
});

test('a thread bomb stops at the limit', async () => {
  const code =
    'import threading, time\nthreading.stack_size(65536)\ncount = 0\ntry:\n  while True: threading.Thread(target=time.sleep, args=(9,), daemon=True).start(); count += 1\nexcept RuntimeError: print(count, flush=True)';
  const { all } = await attack(`${code}${linger}\nimport os\nos._exit(0)`);
  const threads = Math.max(...all.map((sighting) => sighting.threads));
  expect(threads).toBeGreaterThan(1);
  expect(threads).toBeLessThanOrEqual(limits.threads);
});

test('a raised memory limit is refused', async () => {
  const code =
    'import resource\ntry: resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nexcept ValueError: print("refused")\nbytearray(1 << 29)';
  const { result } = await attack(`import time\ntime.sleep(0.1)\n${code}`);
  expect(ended(result)).toEqual(['exception', 'refused']);
});

test('memory that the limit would not count is not to be had', async () => {
  const code =
    'import ctypes, os\nfor make in (lambda: os.memfd_create("x"), lambda: os.open("/dev/shm/x", os.O_CREAT | os.O_RDWR)):\n  try: make(); print("made")\n  except OSError: print("refused")\nprint(ctypes.CDLL(None).shmget(0, 1 << 20, 0o1666))';
  const { result } = await attack(code + linger);
  expect(ended(result)).toEqual(['ok', 'refused\nrefused\n-1']);
});

test('the scratch folder fills up at its size, in one file or in many', async () => {
  const code =
    'import os\ndef fill(path):\n  size = 0\n  try:\n    with open(path, "wb", buffering=0) as file:\n      while True: size += file.write(bytes(1 << 16))\n  except OSError: return size\nprint(sum(fill(f"/tmp/{number}") for number in range(20)))';
  const { result } = await attack(code + linger);
  expect(Number(result.stdout)).toBeGreaterThan(0);
  expect(Number(result.stdout)).toBeLessThanOrEqual(limits.diskBytes);
});

test('empty files end long before they fill the memory of the kernel', async () => {
  const code =
    'import os\ncount = 0\ntry:\n  while True: os.close(os.open(f"/tmp/{count}", os.O_CREAT)); count += 1\nexcept OSError: print(count)';
  const { result } = await attack(code + linger);
  expect(Number(result.stdout)).toBeGreaterThan(100);
  expect(Number(result.stdout)).toBeLessThan(5_000);
});

test('nothing that the code writes can be run or loaded', async () => {
  const code = `import ctypes, os, shutil
path = shutil.copy("/python/bin/python3", "/tmp/program")
os.chmod(path, 0o755)
for run in (lambda: os.execv(path, [path, "-c", "print('ran')"]), lambda: ctypes.CDLL(path)):
  try: run()
  except OSError as error: print("refused")`;
  const { result } = await attack(code + linger);
  expect(ended(result)).toEqual(['ok', 'refused\nrefused']);
});

test('namespaces, mounts and identity stay what they were', async () => {
  const code = `import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
time.sleep(0.1)
calls = {
  "unshare user": lambda: libc.unshare(0x10000000), "unshare net": lambda: libc.unshare(0x40000000),
  "unshare mount": lambda: libc.unshare(0x20000), "mount": lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
  "bind": lambda: libc.mount(b"/tmp", b"/dev", None, 4096, None), "umount": lambda: libc.umount2(b"/tmp", 2),
  "chroot": lambda: libc.chroot(b"/tmp"), "pivot": lambda: libc.syscall(155, b"/tmp", b"/tmp"),
  "setuid": lambda: libc.setuid(0), "setresuid": lambda: libc.setresuid(0, 0, 0), "setgid": lambda: libc.setgid(0),
  "mknod": lambda: libc.mknod(b"/tmp/disk", 0o60666, 0x800), "hostname": lambda: libc.sethostname(b"x", 1),
}
print([name for name, call in calls.items() if call() != -1 or ctypes.get_errno() != 1])`;
  const { result, all } = await attack(code + linger);
  expect(ended(result)).toEqual(['ok', '[]']);
  expect(new Set(all.map(({ namespaces }) => namespaces)).size).toBe(1);
  expect(new Set(all.slice(-5).map(({ mounts }) => mounts)).size).toBe(1);
});

test('doors into the kernel are shut', async () => {
  const code = `import ctypes
libc = ctypes.CDLL(None, use_errno=True)
doors = dict(ptrace=101, bpf=321, perf=298, userfaultfd=323, io_uring_setup=425, io_uring_enter=426, keyctl=250,
             add_key=248, kexec=246, module=175, reboot=169, swapon=167, process_vm_readv=310, setns=308, open_tree=428,
             fsopen=430, handle=304, personality=135, socket=41, execveat=322, syslog=103, iopl=172)
print([name for name, number in doors.items() if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1])`;
  const { result } = await attack(code + linger);
  expect(ended(result)).toEqual(['ok', '[]']);
});

test('signals to every process it can name reach nobody else', async () => {
  const neighbour = sandbox.execute({
    code: 'import time\ntime.sleep(2)\nprint("alive")',
    signal: new AbortController().signal,
  });
  const code =
    'import os\nfor pid in [-1, *range(2, 70000)]:\n  try: os.kill(pid, 9); print("hit", pid)\n  except OSError: pass';
  const killer = await sandbox.execute({ code: code + linger, signal: new AbortController().signal });
  expect(killer.stdout).toBe('');
  expect((await neighbour).stdout).toBe('alive\n');
});

test('a fired signal kills the code at once and is thrown', async () => {
  const leaving = new AbortController();
  const run = sandbox.execute({ code: 'import time\ntime.sleep(600)', signal: leaving.signal });
  await expect.poll(() => sightings(marker).length, { timeout: 5_000 }).toBe(1);
  leaving.abort();
  await expect(run).rejects.toMatchObject({ name: 'AbortError' });
  expect(sightings(marker)).toEqual([]);
});

test('code dies with a gateway that is killed without warning', async () => {
  const script = fileURLToPath(new URL('./gateway.ts', import.meta.url));
  const gateway = spawn(process.execPath, ['--import', 'tsx', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(gateway.stdout, 'data');
  await expect.poll(() => sightings('(29, 29)').length, { timeout: 5_000 }).toBe(1);
  gateway.kill('SIGKILL');
  await expect.poll(() => sightings('(29, 29)').length, { timeout: 5_000 }).toBe(0);
});
