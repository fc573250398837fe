import { randomUUID } from 'node:crypto';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CodeSandbox } from './sandbox.ts';

/**
 * Tries to break out, with canaries that only an escape can touch. Whether bubblewrap is installed says little: kernels,
 * container runtimes and security modules take its means away one by one, so only an attempt tells.
 * @param sandbox with limits small enough that an endless loop ends soon
 * @returns what went wrong, in words; empty when everything held
 */
export async function selfTest(sandbox: CodeSandbox, visibleVariables: readonly string[]): Promise<string[]> {
  const signal = new AbortController().signal;
  const control = await sandbox.execute({ code: 'print(6 * 7)', signal });
  if (control.stdout !== '42\n') return [`it cannot run Python: ${control.stderr.trim() || control.status}`];
  const [escapes, loop] = await Promise.all([
    tryEscapes(sandbox, visibleVariables, signal),
    sandbox.execute({ code: 'while True: pass', signal }),
  ]);
  const endless = loop.status === 'killed' || loop.status === 'timeout' ? [] : ['an endless loop was not stopped'];
  return [...escapes, ...endless];
}

async function tryEscapes(sandbox: CodeSandbox, visible: readonly string[], signal: AbortSignal): Promise<string[]> {
  const secret = randomUUID();
  const folder = await mkdtemp(join(tmpdir(), 'orchestra-canary-'));
  const server = createServer();
  let connections = 0;
  server.on('connection', (socket) => {
    connections += 1;
    socket.destroy();
  });
  try {
    const path = join(folder, 'canary');
    await writeFile(path, secret);
    await chmod(folder, 0o755);
    const port = await listen(server);
    const code = canaries({ path, port, visible, memoryBytes: sandbox.limits.memoryBytes });
    const { stdout, stderr, status } = await sandbox.execute({ code, signal });
    const findings = stdout.split('\n').filter((line) => line !== '' && line !== finished);
    if (!stdout.endsWith(`${finished}\n`)) findings.push(`the canaries did not finish: ${status} ${stderr.trim()}`);
    if (connections > 0 && !findings.includes(reached.network)) findings.push(reached.network);
    return findings;
  } finally {
    server.close();
    await rm(folder, { recursive: true });
  }
}

const finished = 'finished';
const reached = {
  network: 'it reached a listener of the host',
  file: 'it read a file of the host',
  variable: 'it saw a variable of the host',
  process: 'it made a process',
  memory: 'it went over its memory limit',
} as const;

interface Canaries {
  readonly path: string;
  readonly port: number;
  readonly visible: readonly string[];
  readonly memoryBytes: number;
}

const canaries = ({ path, port, visible, memoryBytes }: Canaries): string => `
import os, socket
def attempt(finding, action):
    try:
        if action(): print(finding, flush=True)
    except BaseException: pass
def fork():
    if os.fork() == 0: os._exit(0)
    return True
attempt(${JSON.stringify(reached.network)}, lambda: socket.create_connection(("127.0.0.1", ${port}), 1))
attempt(${JSON.stringify(reached.file)}, lambda: open(${JSON.stringify(path)}).read())
attempt(${JSON.stringify(reached.variable)}, lambda: set(os.environ) - set(${JSON.stringify(visible)}))
attempt(${JSON.stringify(reached.process)}, fork)
attempt(${JSON.stringify(reached.memory)}, lambda: bytearray(${memoryBytes}))
print(${JSON.stringify(finished)}, flush=True)
`;

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : 0);
    });
  });
}
