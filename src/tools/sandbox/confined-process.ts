import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import type { Duplex, Readable } from 'node:stream';
import { cancelled, throwIfCancelled } from '../cancelled.ts';

export interface ConfinedCommand {
  /** Program and arguments. */
  readonly command: readonly string[];
  /** The child's descriptors 3, 4, …: a pipe of ours, or an open file. */
  readonly descriptors: readonly ('pipe' | number)[];
  /** Of standard output, kept from the start; one byte more ends the process. */
  readonly outputBytes: number;
  /** Of standard error, kept from the end. */
  readonly errorBytes: number;
}

export interface ConfinedJob extends Omit<ConfinedCommand, 'descriptors'> {
  /** Readable by the child as descriptors 3, 4, … */
  readonly inputs: readonly Buffer[];
  readonly wallMs: number;
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

/** A process group with an empty environment, of which nothing is left behind. */
export interface ConfinedProcess {
  /** Our side of one of its pipes, by the child's descriptor. */
  pipe(descriptor: number): Duplex;
  readonly isRunning: () => boolean;
  readonly kill: () => void;
  /** Lets our own process end although it is there; to be taken back before anybody waits for it. */
  readonly unref: () => void;
  readonly ref: () => void;
  /**
   * Waits until every holder of its pipes is gone.
   * @throws AbortError when the signal fires, and what `spawn` throws when the program cannot start.
   */
  end(wallMs: number, signal: AbortSignal): Promise<ProcessEnd>;
}

export function startConfined({ command, descriptors, outputBytes, errorBytes }: ConfinedCommand): ConfinedProcess {
  const [program = '', ...args] = command;
  const child = spawn(program, args, {
    cwd: '/',
    env: {},
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', ...descriptors],
  });
  let killedFor: ProcessEnd['killedFor'];
  const killFor = (why: ProcessEnd['killedFor']) => {
    killedFor ??= why;
    killGroup(child);
  };
  const stdout = keepHead(child.stdout, outputBytes, () => killFor('output_limit'));
  const stderr = keepTail(child.stderr, errorBytes);
  const gone = ended(child);
  // Whoever waits hears of it; one that nobody waits for is no failure of ours.
  gone.catch(() => {});
  const kill = () => killGroup(child);

  const end = async (wallMs: number, signal: AbortSignal): Promise<ProcessEnd> => {
    const startedMs = performance.now();
    signal.addEventListener('abort', kill, { once: true });
    const timer = setTimeout(() => killFor('timeout'), wallMs);
    try {
      if (signal.aborted) throw cancelled();
      const exitCode = await gone;
      throwIfCancelled(signal);
      const durationMs = Math.round(performance.now() - startedMs);
      return { killedFor, exitCode, stdout: stdout(), stderr: stderr(), durationMs };
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', kill);
      kill();
    }
  };
  const handles = [child, ...child.stdio.filter((pipe) => pipe instanceof Socket)];
  return {
    pipe: (descriptor) => pipeOf(child, descriptor),
    isRunning: () => isRunning(child),
    kill,
    unref: () => {
      for (const handle of handles) handle.unref();
    },
    ref: () => {
      for (const handle of handles) handle.ref();
    },
    end,
  };
}

/** Starts a process, feeds it and waits for its end. */
export async function runConfined({ inputs, wallMs, signal, ...command }: ConfinedJob): Promise<ProcessEnd> {
  throwIfCancelled(signal);
  const confined = startConfined({ ...command, descriptors: inputs.map(() => 'pipe') });
  inputs.forEach((bytes, index) => {
    confined.pipe(index + 3).end(bytes);
  });
  return confined.end(wallMs, signal);
}

function pipeOf(child: ChildProcess, descriptor: number): Duplex {
  // Node types the extra pipes as either direction; those we asked for are sockets.
  const pipe = child.stdio[descriptor] as Duplex;
  // A child that dies early breaks its pipes; its exit code tells the story.
  pipe.on('error', () => {});
  return pipe;
}

// Once the leader is reaped its number may belong to somebody else.
const isRunning = (child: ChildProcess): boolean =>
  child.pid !== undefined && child.exitCode === null && child.signalCode === null;

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined || !isRunning(child)) return;
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
