import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { throwIfCancelled } from '../cancelled.ts';

export interface ConfinedCommand {
  /** Program and arguments. */
  readonly command: readonly string[];
  /** Readable by the child as descriptors 3, 4, … */
  readonly inputs: readonly Buffer[];
  readonly wallMs: number;
  /** Of standard output, kept from the start; one byte more ends the process. */
  readonly outputBytes: number;
  /** Of standard error, kept from the end. */
  readonly errorBytes: number;
  readonly signal: AbortSignal;
}

export interface ProcessEnd {
  /** Why it was killed from here, if it was. */
  readonly killedFor: 'timeout' | 'output_limit' | undefined;
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly durationMs: number;
}

/**
 * Runs a process group with an empty environment and leaves nothing of it behind: resolves when every holder of its
 * pipes is gone. @throws AbortError when the signal fires, and what `spawn` throws when the program cannot start.
 */
export async function runConfined(job: ConfinedCommand): Promise<ProcessEnd> {
  throwIfCancelled(job.signal);
  const [program = '', ...args] = job.command;
  const startedMs = performance.now();
  const child = spawn(program, args, {
    cwd: '/',
    env: {},
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', ...job.inputs.map(() => 'pipe' as const)],
  });
  let killedFor: ProcessEnd['killedFor'];
  const kill = (why?: ProcessEnd['killedFor']) => {
    killedFor ??= why;
    killGroup(child);
  };
  const onAbort = () => kill();
  job.signal.addEventListener('abort', onAbort, { once: true });
  const timer = setTimeout(() => kill('timeout'), job.wallMs);
  try {
    const stdout = keepHead(child.stdout, job.outputBytes, () => kill('output_limit'));
    const stderr = keepTail(child.stderr, job.errorBytes);
    feed(child, job.inputs);
    const exitCode = await ended(child);
    throwIfCancelled(job.signal);
    const durationMs = Math.round(performance.now() - startedMs);
    return { killedFor, exitCode, stdout: stdout(), stderr: stderr(), durationMs };
  } finally {
    clearTimeout(timer);
    job.signal.removeEventListener('abort', onAbort);
    killGroup(child);
  }
}

function killGroup(child: ChildProcess): void {
  // Once the leader is reaped its number may belong to somebody else.
  const isRunning = child.exitCode === null && child.signalCode === null;
  if (child.pid === undefined || !isRunning) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It ended between the look and the kill.
  }
}

function ended(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? -1));
  });
}

function feed(child: ChildProcess, inputs: readonly Buffer[]): void {
  inputs.forEach((bytes, index) => {
    // Node types the extra pipes as either direction; those we asked for are sockets.
    const pipe = child.stdio[index + 3] as Writable;
    // A child that dies early breaks its pipes; its exit code tells the story.
    pipe.on('error', () => {});
    pipe.end(bytes);
  });
}

function keepHead(stream: Readable | null, limit: number, onOverflow: () => void): () => string {
  const chunks: Buffer[] = [];
  let size = 0;
  stream?.on('data', (chunk: Buffer) => {
    if (size < limit) chunks.push(chunk.subarray(0, limit - size));
    size += chunk.length;
    if (size > limit) onOverflow();
  });
  return () => wholeCharacters(Buffer.concat(chunks), size > limit);
}

function keepTail(stream: Readable | null, limit: number): () => string {
  let tail = Buffer.alloc(0);
  stream?.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-limit);
  });
  return () => tail.toString('utf8');
}

/** A cut may have split the last character; half of one is dropped, not shown as a replacement. */
const wholeCharacters = (bytes: Buffer, cut: boolean): string => new TextDecoder().decode(bytes, { stream: cut });
