import { expect } from 'vitest';
import type { CodeLimits, CodeResult } from '../../../src/tools/sandbox/sandbox.ts';
import type { Bait } from './host-watch.ts';

/**
 * Attacks that leave evidence on the host. Each is first made without the sandbox, where it has to succeed: an attack
 * that cannot work proves nothing by failing.
 */
export interface Escape {
  readonly name: string;
  readonly code: (bait: Bait) => string;
  /** Whether it got out, told by the host or by a secret that only the host knows. */
  readonly escaped: (bait: Bait, output: string) => boolean;
}

const text = (value: string) => JSON.stringify(value);
const leaks = (bait: Bait, output: string) => output.includes(bait.secret);
const reaches = (bait: Bait) => bait.contacts() > 0;
const writes = (bait: Bait) => bait.filesWritten().length > 0;

export const escapes: readonly Escape[] = [
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

/** Attacks on the machine itself. What they took is seen on the host; this is how the run has to end. */
export interface Burden {
  readonly name: string;
  readonly code: string;
  readonly expectEnd: (result: CodeResult, limits: CodeLimits) => void;
}

const lastLine = (stdout: string) => stdout.trim().split('\n').at(-1);

export const burdens: readonly Burden[] = [
  {
    name: 'makes processes without end',
    code: 'import os\nmade = 0\nfor i in range(200):\n  try:\n    if os.fork() == 0: os._exit(0)\n    made += 1\n  except OSError: pass\nprint(made)',
    expectEnd: ({ stdout }) => expect(stdout).toBe('0\n'),
  },
  {
    name: 'makes processes through the C library',
    code: 'import ctypes\nlibc = ctypes.CDLL(None)\nmade = 0\nfor name in ("fork", "vfork"):\n  try: made += getattr(libc, name)() >= 0\n  except AttributeError: pass\nprint(made)',
    expectEnd: ({ stdout }) => expect(stdout).toBe('0\n'),
  },
  {
    name: 'makes threads without end',
    code: 'import os, threading, time\nthreading.stack_size(65536)\ncount = 0\ntry:\n  while True: threading.Thread(target=time.sleep, args=(9,), daemon=True).start(); count += 1\nexcept (RuntimeError, MemoryError): print(count, flush=True)\nos._exit(0)',
    expectEnd: ({ stdout }, { threads }) => expect(Number(stdout)).toBeLessThanOrEqual(threads),
  },
  {
    name: 'hoards memory',
    code: 'hoard = []\nwhile True: hoard.append(bytearray(1 << 20))',
    expectEnd: ({ status, stderr }) => {
      expect(status).toBe('exception');
      expect(stderr).toContain('MemoryError');
    },
  },
  {
    name: 'asks for more memory than there is',
    code: 'for size in (1 << 29, 1 << 33):\n  try: bytearray(size); print("got")\n  except (MemoryError, OverflowError): print("refused")',
    expectEnd: ({ stdout }) => expect(stdout).toBe('refused\nrefused\n'),
  },
  {
    name: 'loops without end',
    code: 'print("started", flush=True)\nwhile True: pass',
    expectEnd: ({ status, stdout }) => {
      expect(stdout).toBe('started\n');
      expect(['killed', 'timeout']).toContain(status);
    },
  },
  {
    name: 'sleeps and ignores every signal',
    code: 'import os, signal, time\nfor number in range(1, 32):\n  try: signal.signal(number, signal.SIG_IGN)\n  except (OSError, ValueError): pass\ntry: os.setsid()\nexcept OSError: pass\nprint("asleep", flush=True)\ntime.sleep(600)',
    expectEnd: ({ status, stdout }) => {
      expect(stdout).toBe('asleep\n');
      expect(['killed', 'timeout']).toContain(status);
    },
  },
  {
    name: 'floods its output',
    code: 'while True: print("ä" * 1000)',
    expectEnd: ({ status, stdout }, { outputBytes }) => {
      expect(status).toBe('output_limit');
      expect(Buffer.byteLength(stdout)).toBeLessThanOrEqual(outputBytes);
      expect(stdout).not.toContain('\ufffd');
    },
  },
  {
    name: 'floods its errors',
    code: 'import sys\nfor i in range(20000): print(i, file=sys.stderr)\n1 / 0',
    expectEnd: ({ stderr }, { errorBytes }) => {
      expect(stderr.length).toBeLessThanOrEqual(errorBytes);
      expect(stderr).toMatch(/ZeroDivisionError: division by zero\n$/);
    },
  },
  {
    name: 'fills the disk',
    code: 'files = []\nwhile len(files) < 2000:\n  try:\n    files.append(open(f"/tmp/{len(files)}", "wb", buffering=0))\n    files[-1].write(bytes(1 << 20))\n  except OSError: break\nprint("full")',
    expectEnd: ({ status, stdout }) => expect([status, lastLine(stdout)]).toSatisfy(fullOrDead),
  },
  {
    name: 'makes empty files without end',
    code: 'import os\ncount = 0\ntry:\n  while True: os.close(os.open(f"/tmp/{count}", os.O_CREAT)); count += 1\nexcept OSError: print("full")',
    expectEnd: ({ status, stdout }) => expect([status, lastLine(stdout)]).toSatisfy(fullOrDead),
  },
  {
    name: 'recurses without end',
    code: 'import sys\nsys.setrecursionlimit(10**9)\ndef down(function): return [function(function)]\ndown(down)',
    expectEnd: ({ status }) => expect(['killed', 'exception', 'timeout']).toContain(status),
  },
  {
    name: 'jumps into nowhere',
    code: 'import ctypes\nctypes.string_at((1 << 32) - 8, 1 << 20)',
    expectEnd: ({ status }) => expect(['killed', 'exception']).toContain(status),
  },
  {
    name: 'signals every process that it can name',
    code: 'import os\nfor pid in [-1, *range(2, 5000)]:\n  try: os.kill(pid, 9); print("hit", pid)\n  except OSError: pass\nprint("done")',
    // Pyodide lets a program signal itself, and it has a number like any other.
    expectEnd: ({ status, stdout }) => expect([stdout, status]).toSatisfy(hitNobodyElse),
  },
];

const hitNobodyElse = ([stdout, status]: readonly string[]): boolean =>
  (stdout === 'done\n' && status === 'ok') || (stdout === '' && status === 'killed');

/** Refused by a size limit, or ended by one of memory or time. */
const fullOrDead = ([status, line]: readonly (string | undefined)[]): boolean =>
  (status === 'ok' && line === 'full') || status === 'killed' || status === 'timeout';
