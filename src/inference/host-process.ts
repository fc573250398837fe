import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import type { Duplex, Readable } from 'node:stream';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { encodeFrame, frameDecoder } from './frames.ts';
import { type FromHost, hostDescriptor, hostFrame, type ToHost } from './protocol.ts';

export interface HostEvents {
  message(message: FromHost): void;
  /** Once, whatever the cause; the host is gone by then. */
  exit(end: HostEnd): void;
}

export interface HostEnd {
  /** Safe to show. */
  readonly how: string;
  /** Its last words on stderr; for the log only. */
  readonly complaints: string;
}

/** One life of the host process. */
export interface HostProcess {
  /** Throws FrameError when the message is too large; a host that is gone reports itself by `exit`. */
  send(message: ToHost): void;
  /** Ends it at once: native code that hangs listens to nothing else. */
  kill(reason: string): void;
}

const keptStderrCharacters = 2_000;

export function spawnHost(
  nodeArguments: readonly string[],
  environment: Readonly<Record<string, string>>,
  events: HostEvents,
): HostProcess {
  // What it writes, such as snapshots, goes with it, even when it is killed.
  const folder = mkdtempSync(join(tmpdir(), 'orchestra-host-'));
  const child = spawn(process.execPath, nodeArguments, {
    // The library asks for a home folder when it is imported, and fails for users who have none.
    env: { HOME: folder, TMPDIR: folder, ...environment },
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
  });
  let killedFor: string | undefined;
  const kill = (reason: string) => {
    killedFor ??= reason;
    child.kill('SIGKILL');
  };
  const complaints = tailOf(child.stderr);
  onceGone(child, (how) => {
    rmSync(folder, { recursive: true, force: true });
    events.exit({ how: killedFor ?? how, complaints: complaints() });
  });
  // A pipe above 2 is a duplex socket; there is none when the process could not be created.
  const connection = child.stdio?.[hostDescriptor] as Duplex | undefined;
  const read = messageReader();
  connection?.on('data', (bytes: Buffer) => {
    const messages = read(bytes);
    if (messages === undefined) kill('it sent a corrupt frame');
    else messages.forEach(events.message);
  });
  // A write to a dead host fails before we hear how it died, so this is no reason of its own.
  connection?.on('error', () => child.kill('SIGKILL'));
  return {
    kill,
    send(message) {
      const frame = encodeFrame(message);
      if (connection?.writable) connection.write(frame);
    },
  };
}

/** Undefined once the host has said something that is no message. */
function messageReader(): (bytes: Buffer) => FromHost[] | undefined {
  const decode = frameDecoder();
  return (bytes) => {
    try {
      return decode(bytes).flatMap((frame) => hostFrame.parse(frame));
    } catch {
      return undefined;
    }
  };
}

/** From the sources the host needs the same loader as we do; once compiled, none. */
export function hostArguments(): string[] {
  const extension = extname(import.meta.url);
  const host = fileURLToPath(new URL(`./host${extension}`, import.meta.url));
  if (extension !== '.ts') return [host];
  return ['--import', pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href, host];
}

function onceGone(child: ChildProcess, report: (how: string) => void): void {
  if (child.pid === undefined) {
    child.once('error', () => report('its process could not be created'));
    return;
  }
  child.on('error', () => undefined);
  // Not 'exit': the last frames and complaints may still be in the pipes then.
  child.once('close', (code, signal) =>
    report(signal === null ? `it exited with code ${code}` : `it died of ${signal}`),
  );
}

function tailOf(stream: Readable | null | undefined): () => string {
  let tail = '';
  stream?.setEncoding('utf8').on('data', (text: string) => {
    tail = (tail + text).slice(-keptStderrCharacters);
  });
  return () => tail.trim();
}
