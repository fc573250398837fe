import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Agent, request } from 'undici';
import type { ChatMessage } from '../../src/contract/chat.ts';
import type { InferenceEngine } from '../../src/inference/engine.ts';

/** One way to run the same GGUF, in a process of its own. */
export interface Contestant {
  readonly name: string;
  /** @param begun is called at the first token. */
  ask(messages: readonly ChatMessage[], maxTokens: number, begun?: () => void): Promise<Answer>;
  /** Of the process with the model. */
  cpuMs(): number;
  stop(): Promise<void>;
}

export interface Answer {
  readonly firstTokenMs: number;
  readonly longestGapMs: number;
  readonly outputTokens: number;
}

export interface Setting {
  readonly modelPath: string;
  readonly sequences: number;
  readonly contextTokens: number;
}

export const chunkTokens = 256;

/** The kernel counts in hundredths of a second. */
const clockTickMs = 10;

export interface MeasuredEngine {
  readonly engine: InferenceEngine;
  cpuMs(): number;
}

export async function startOurs(setting: Setting): Promise<MeasuredEngine> {
  const { startEngine } = await import(new URL('../../dist/inference/start-engine.js', import.meta.url).href);
  const before = children();
  const options = { ...setting, device: 'cpu', threads: 1, prefillChunkTokens: chunkTokens };
  const engine: InferenceEngine = await startEngine(options);
  const host = children().find((pid) => !before.includes(pid)) ?? 0;
  return { engine, cpuMs: () => cpuMsOf(host) };
}

export async function ours(setting: Setting): Promise<Contestant> {
  const { engine, cpuMs } = await startOurs(setting);
  return {
    name: 'orchestra',
    async ask(messages, maxTokens, begun) {
      const signal = new AbortController().signal;
      const stopwatch = startStopwatch(begun);
      const events = engine.generate({ messages, maxTokens, temperature: 0, topP: 1, stop: [], seed: 1, signal });
      for await (const event of events) {
        if (event.type === 'end') return { ...stopwatch.read(), outputTokens: event.usage.outputTokens };
        stopwatch.lap();
      }
      throw new Error('the stream ended without an end');
    },
    cpuMs,
    stop: () => engine.close(),
  };
}

export async function llamaServer(
  program: string,
  { modelPath, sequences, contextTokens }: Setting,
): Promise<Contestant> {
  const port = await freePort();
  const options = { '-m': modelPath, '-t': 1, '-tb': 1, '-np': sequences, '-c': contextTokens * sequences };
  const address = ['--host', '127.0.0.1', '--port', String(port), '--no-ui'];
  const child = spawn(program, [...Object.entries(options).flat().map(String), ...address], { stdio: 'ignore' });
  return overHttp('llama-server', child, `http://127.0.0.1:${port}`);
}

/** node-llama-cpp the way its documentation shows: a loop of its own for each request. */
export async function plainLibrary({ modelPath, sequences, contextTokens }: Setting): Promise<Contestant> {
  const port = await freePort();
  const program = fileURLToPath(new URL('../processes/plain-library.ts', import.meta.url));
  const words = [program, modelPath, String(sequences), String(contextTokens), String(port)];
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), ...words], { stdio: 'inherit' });
  return overHttp('plain library', child, `http://127.0.0.1:${port}`);
}

async function overHttp(name: string, child: ChildProcess, origin: string): Promise<Contestant> {
  const exited = once(child, 'exit');
  const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${name} did not start`);
    const health = await request(`${origin}/health`, { dispatcher }).catch(() => undefined);
    await health?.body.dump();
    if (health?.statusCode === 200) break;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  return {
    name,
    async ask(messages, maxTokens, begun) {
      const stopwatch = startStopwatch(begun);
      const body = JSON.stringify({ messages, max_tokens: maxTokens, temperature: 0, stream: true });
      const headers = { 'content-type': 'application/json' };
      const reply = await request(`${origin}/v1/chat/completions`, { method: 'POST', headers, body, dispatcher });
      let outputTokens = 0;
      for await (const bytes of reply.body) {
        // One event a token, and one that only names the role.
        const tokens = String(bytes).split('"content":"').length - 1;
        if (tokens > 0) stopwatch.lap();
        outputTokens += tokens;
      }
      return { ...stopwatch.read(), outputTokens };
    },
    cpuMs: () => cpuMsOf(child.pid ?? 0),
    async stop() {
      child.kill('SIGKILL');
      await exited;
      await dispatcher.close();
    },
  };
}

function startStopwatch(begun?: () => void) {
  const startedAt = performance.now();
  let lastAt = startedAt;
  let firstTokenMs: number | undefined;
  let longestGapMs = 0;
  return {
    lap() {
      const now = performance.now();
      if (firstTokenMs === undefined) {
        firstTokenMs = now - startedAt;
        begun?.();
      } else longestGapMs = Math.max(longestGapMs, now - lastAt);
      lastAt = now;
    },
    read: () => ({ firstTokenMs: firstTokenMs ?? performance.now() - startedAt, longestGapMs }),
  };
}

function children(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && statOf(pid)[1] === String(process.pid));
}

function cpuMsOf(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[11]) + Number(fields[12])) * clockTickMs;
}

/** The fields behind the program's name; none when the process is gone. */
function statOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /, '')
      .split(' ');
  } catch {
    return [];
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address ? address.port : 0;
}
