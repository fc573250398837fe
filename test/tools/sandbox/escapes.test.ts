import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { bubblewrapCommand } from '../../../src/tools/sandbox/bubblewrap.ts';
import { runConfined } from '../../../src/tools/sandbox/confined-process.ts';
import { openSandbox } from '../../../src/tools/sandbox/open-sandbox.ts';
import { findPython, type PythonRuntime } from '../../../src/tools/sandbox/python-runtime.ts';
import { type CodeSandbox, defaultCodeLimits } from '../../../src/tools/sandbox/sandbox.ts';
import { type Bait, startBait } from './host-watch.ts';

/**
 * Attacks that leave evidence on the host. Each is first made without the sandbox, where it has to succeed: an attack
 * that cannot work proves nothing by failing.
 */
interface Attack {
  readonly name: string;
  readonly code: (bait: Bait) => string;
  /** Whether it got out, told by the host or by a secret that only the host knows. */
  readonly escaped: (bait: Bait, output: string) => boolean;
}

const text = (value: string) => JSON.stringify(value);
const leaks = (bait: Bait, output: string) => output.includes(bait.secret);
const reaches = (bait: Bait) => bait.contacts() > 0;
const writes = (bait: Bait) => bait.filesWritten().length > 0;

const attacks: readonly Attack[] = [
  {
    name: 'reads a file of the host',
    code: ({ secretPath }) => `print(open(${text(secretPath)}).read())`,
    escaped: leaks,
  },
  {
    name: 'reads a file of the host by way up from the working directory',
    code: ({ secretPath }) => `import os\nprint(open("../" * 30 + ${text(secretPath.slice(1))}).read())`,
    escaped: leaks,
  },
  {
    name: 'reads a file of the host through a symbolic link',
    code: ({ secretPath }) =>
      `import os, tempfile\nlink = tempfile.mkdtemp() + "/link"\nos.symlink(${text(secretPath)}, link)\nprint(open(link).read())`,
    escaped: leaks,
  },
  {
    name: 'reads a file of the host through a process root',
    code: ({ secretPath, victimPid }) =>
      `for pid in ("1", "self", "${victimPid}"):\n  try: print(open(f"/proc/{pid}/root" + ${text(secretPath)}).read())\n  except OSError: pass`,
    escaped: leaks,
  },
  { name: 'prints its environment', code: () => 'import os\nprint(dict(os.environ))', escaped: leaks },
  {
    name: 'prints the environment of every process',
    code: () =>
      'import glob\nfor path in glob.glob("/proc/*/environ"):\n  try: print(open(path).read())\n  except OSError: pass',
    escaped: leaks,
  },
  {
    name: 'connects to a listener of the host',
    code: ({ port }) => `import socket\nprint(socket.create_connection(("127.0.0.1", ${port}), 2).recv(100))`,
    escaped: reaches,
  },
  {
    name: 'fetches a page of the host',
    code: ({ port }) => `import urllib.request\nprint(urllib.request.urlopen("http://127.0.0.1:${port}/", timeout=2))`,
    escaped: reaches,
  },
  {
    name: 'sends a name query to a resolver of the host',
    code: ({ udpPort }) =>
      `import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\6canary\\0\\0\\1\\0\\1", ("127.0.0.1", ${udpPort}))`,
    escaped: reaches,
  },
  {
    name: 'connects to a socket file of the host',
    code: ({ socketPath }) => `import socket\nsocket.socket(socket.AF_UNIX).connect(${text(socketPath)})`,
    escaped: reaches,
  },
  {
    name: 'connects to an abstract socket of the host',
    code: ({ abstractName }) =>
      `import socket\nsocket.socket(socket.AF_UNIX).connect("\\0" + ${text(abstractName)}.ljust(107, "\\0"))`,
    escaped: reaches,
  },
  {
    name: 'connects to the host through the C library',
    code: ({ port }) =>
      `import ctypes, socket, struct\nlibc = ctypes.CDLL(None)\nfd = libc.socket(2, 1, 0)\naddress = struct.pack("<H", 2) + struct.pack(">H", ${port}) + bytes([127, 0, 0, 1]) + bytes(8)\nprint(libc.connect(fd, address, 16))`,
    escaped: reaches,
  },
  {
    name: 'starts a program',
    code: ({ folder }) => `import subprocess\nsubprocess.run(["/bin/sh", "-c", "echo out > ${folder}/out"])`,
    escaped: writes,
  },
  {
    name: 'starts a shell through the C library',
    code: ({ folder }) => `import ctypes\nctypes.CDLL(None).system(b"echo out > ${folder}/out")`,
    escaped: writes,
  },
  {
    name: 'becomes another program',
    code: ({ folder }) => `import os\nos.execv("/bin/sh", ["sh", "-c", "echo out > ${folder}/out"])`,
    escaped: writes,
  },
  {
    name: 'starts a helper by the dynamic linker',
    code: ({ secretPath }) =>
      `import glob, os\nlinker = [*glob.glob("/lib64/ld-linux*"), *glob.glob("/lib/ld-linux*")][0]\nos.execv(linker, [linker, "/bin/cat", ${text(secretPath)}])`,
    escaped: leaks,
  },
  {
    name: 'writes a file of the host',
    code: ({ folder }) => `open("${folder}/out", "w").write("out")`,
    escaped: writes,
  },
  {
    name: 'makes a hard link to a file of the host',
    code: ({ folder, secretPath }) => `import os\nos.link(${text(secretPath)}, "${folder}/out")`,
    escaped: writes,
  },
  {
    name: 'kills a process of the host',
    code: ({ victimPid }) => `import os, time\nos.kill(${victimPid}, 9)\ntime.sleep(0.2)`,
    escaped: ({ victimLives }) => !victimLives(),
  },
  {
    name: 'kills a process of the host through a process descriptor',
    code: ({ victimPid }) =>
      `import os, signal, time\nsignal.pidfd_send_signal(os.pidfd_open(${victimPid}), 9)\ntime.sleep(0.2)`,
    escaped: ({ victimLives }) => !victimLives(),
  },
];

let sandbox: CodeSandbox;
let runtime: PythonRuntime;
let bait: Bait;

beforeAll(async () => {
  const opened = await openSandbox({ limits: { cpuSeconds: 3, wallMs: 8_000 } });
  if (!opened.available) throw new Error(opened.reason);
  sandbox = opened.sandbox;
  runtime = await findPython('python3');
}, 60_000);

beforeEach(async () => {
  bait = await startBait();
  process.env['ORCHESTRA_TEST_SECRET'] = bait.secret;
});

afterEach(() => {
  delete process.env['ORCHESTRA_TEST_SECRET'];
  bait.close();
});

async function inSandbox(code: string): Promise<string> {
  const { stdout, stderr } = await sandbox.execute({ code, signal: new AbortController().signal });
  return stdout + stderr;
}

/** The same code in the host's own Python. It may fail after it has done its harm. */
function onHost(code: string): Promise<string> {
  return new Promise((resolve) => {
    execFile('python3', ['-c', code], { cwd: '/', maxBuffer: 2 ** 26, timeout: 10_000 }, (_error, stdout, stderr) =>
      resolve(stdout + stderr),
    );
  });
}

for (const { name, code, escaped } of attacks) {
  test(`code that ${name} fails`, async () => {
    const output = await inSandbox(code(bait));
    expect(escaped(bait, output)).toBe(false);
    const control = await onHost(code(bait));
    await expect.poll(() => escaped(bait, control), { message: 'the attack works outside' }).toBe(true);
  });
}

test('code finds only its three standard descriptors, whatever the gateway left open', async () => {
  const code = [
    'import os',
    'for fd in range(3, 128):',
    '  try: print(fd, os.read(fd, 100))',
    '  except OSError as error: assert error.errno == 9',
  ].join('\n');
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
