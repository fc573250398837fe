import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Things of the host that an escape would touch, and what was touched. */
export async function startBait() {
  const secret = randomUUID();
  const folder = mkdtempSync(join(tmpdir(), 'orchestra-bait-'));
  chmodSync(folder, 0o777);
  const secretPath = join(folder, 'secret');
  writeFileSync(secretPath, secret, { mode: 0o644 });
  let contacts = 0;
  const listen = (address: string | number) =>
    new Promise<Server>((resolve, reject) => {
      const server = createServer((socket) => {
        contacts += 1;
        socket.on('error', () => {}); // The attacker hangs up as it likes.
        socket.end(secret);
      });
      server.once('error', reject);
      const ready = () => resolve(server);
      if (typeof address === 'number') server.listen(address, '127.0.0.1', ready);
      else server.listen(address, ready);
    });
  // Node pads abstract names with zeros to their full length; an attacker has to know.
  const abstractName = `orchestra-${secret}`;
  const socketPath = join(folder, 'socket');
  const servers = [await listen(0), await listen(socketPath), await listen(`\0${abstractName}`)];
  chmodSync(socketPath, 0o777);
  const udp = createSocket('udp4');
  udp.on('message', () => {
    contacts += 1;
  });
  await new Promise<void>((resolve) => udp.bind(0, '127.0.0.1', resolve));
  const victim = spawn('sleep', ['600'], { stdio: 'ignore' });
  const address = servers[0]?.address();
  return {
    secret,
    folder,
    secretPath,
    socketPath,
    abstractName,
    port: typeof address === 'object' && address !== null ? address.port : 0,
    udpPort: udp.address().port,
    victimPid: victim.pid ?? 0,
    contacts: () => contacts,
    filesWritten: () => readdirSync(folder).filter((name) => name !== 'secret' && name !== 'socket'),
    victimLives: () => victim.exitCode === null && victim.signalCode === null,
    close() {
      for (const server of servers) server.close();
      udp.close();
      victim.kill('SIGKILL');
      rmSync(folder, { recursive: true });
    },
  };
}

export type Bait = Awaited<ReturnType<typeof startBait>>;

/** What one process of the sandbox looks like from outside. */
interface Sighting {
  readonly pid: string;
  readonly uid: string;
  readonly virtualBytes: number;
  readonly residentBytes: number;
  readonly threads: number;
  readonly namespaces: string;
  readonly mounts: string;
}

/** Interpreters, native or in Node, whose command line carries the marker. */
export function sightings(marker: string): Sighting[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        const isInterpreter = command.startsWith('/python/bin/python3') || command.startsWith(process.execPath);
        return isInterpreter && command.includes(marker) ? [sight(pid)] : [];
      } catch {
        return []; // It ended while we looked.
      }
    });
}

function sight(pid: string): Sighting {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const field = (name: string) => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(status)?.[1] ?? '0';
  return {
    pid,
    uid: field('Uid'),
    virtualBytes: Number(field('VmSize')) * 1024,
    residentBytes: Number(field('VmRSS')) * 1024,
    threads: Number(field('Threads')),
    namespaces: ['user', 'mnt', 'net', 'pid'].map((kind) => readlinkSync(`/proc/${pid}/ns/${kind}`)).join(),
    mounts: readFileSync(`/proc/${pid}/mounts`, 'utf8'),
  };
}

/** Looks at the sandbox from outside, again and again, while `work` goes on. */
export async function watching<T>(marker: string, work: Promise<T>): Promise<{ result: T; seen: Sighting[][] }> {
  const seen: Sighting[][] = [];
  const timer = setInterval(() => seen.push(sightings(marker)), 10);
  try {
    return { result: await work, seen };
  } finally {
    clearInterval(timer);
  }
}
