import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GenerateRequest, InferenceEngine } from '../../src/inference/engine.ts';
import { chunkTokens } from './contestants.ts';

/** What somebody waits for, beside the time of one chunk of prompt or what an idle process takes; milliseconds. */
export interface Wait {
  readonly name: string;
  readonly bar: number;
  readonly sequences: number;
  readonly contextTokens: number;
  take(engine: InferenceEngine, round: number): Promise<{ readonly wait: number; readonly beside: number }>;
}

const sentence = ' the answer of good search and';
const tokensOfSentence = 6;
const promptOf = (beginning: string, tokens: number): string =>
  beginning + sentence.repeat(Math.ceil(tokens / tokensOfSentence));

const requestOf = (content: string, maxTokens: number, signal = new AbortController().signal): GenerateRequest => ({
  messages: [{ role: 'user', content }],
  maxTokens,
  temperature: 0,
  topP: 1,
  stop: [],
  seed: 1,
  signal,
});

/** Milliseconds until its end; when it is cancelled, until it says so. */
async function play(engine: InferenceEngine, request: GenerateRequest, heard = () => {}): Promise<number> {
  const startedAt = performance.now();
  try {
    for await (const _ of engine.generate(request)) heard();
  } catch (error) {
    if (!request.signal.aborted) throw error;
  }
  return performance.now() - startedAt;
}

async function chunkMsOf(engine: InferenceEngine, beginning: string): Promise<number> {
  const chunks = 5;
  return (await play(engine, requestOf(promptOf(beginning, chunks * chunkTokens), 1))) / chunks;
}

/** Where in a chunk a reader leaves. */
const phases = [0.1, 0.35, 0.6, 0.85];

/**
 * The longest time from a cancellation within 2,000 tokens of prompt until the only sequence serves somebody else, less
 * what that takes by itself.
 */
async function cancelWait(engine: InferenceEngine, round: number) {
  const chunkMs = await chunkMsOf(engine, `${round}`);
  const next = (phase: number) => requestOf(`next ${round} ${phase}`, 1);
  const nextMs = await play(engine, next(0));
  const waitsMs: number[] = [];
  for (const phase of phases) {
    const controller = new AbortController();
    const reading = play(engine, requestOf(promptOf(`${round} ${phase}`, 2_000), 1, controller.signal));
    await sleep((2 + phase) * chunkMs);
    controller.abort();
    waitsMs.push((await play(engine, next(phase))) - nextMs);
    await reading;
  }
  return { wait: Math.max(...waitsMs), beside: chunkMs };
}

/** The longest gap of a writer while 1,500 tokens of prompt are read beside it, on two sequences. */
async function writersGap(engine: InferenceEngine, round: number) {
  const chunkMs = await chunkMsOf(engine, `${round}`);
  let lastAt: number | undefined;
  let longestMs = 0;
  let reader: Promise<number> | undefined;
  await play(engine, requestOf(`write ${round}`, 64), () => {
    const now = performance.now();
    if (lastAt !== undefined) longestMs = Math.max(longestMs, now - lastAt);
    lastAt = now;
    reader ??= play(engine, requestOf(promptOf(`reader ${round}`, 1_500), 1));
  });
  await reader;
  return { wait: longestMs, beside: chunkMs };
}

const allowedDelayMs = 12;

/** The 99th percentile of how late this process, the parent, gets to its work: with 16 streams coming in, and with none. */
async function parentsDelay(engine: InferenceEngine, round: number) {
  const idleMs = await delayMs(() => sleep(3_000));
  const streams = Array.from({ length: 16 }, (_, index) => requestOf(`${round} ${index}`, 64));
  const busyMs = await delayMs(() => Promise.all(streams.map((request) => play(engine, request))));
  return { wait: busyMs, beside: idleMs + allowedDelayMs };
}

async function delayMs(act: () => Promise<unknown>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 2 });
  delay.enable();
  await act();
  delay.disable();
  return delay.percentile(99) / 1e6;
}

export const waits: readonly Wait[] = [
  {
    name: 'cancel in 2,000 tokens of prompt, longest wait against a chunk',
    bar: 1.2,
    sequences: 1,
    contextTokens: 2_304,
    take: cancelWait,
  },
  {
    name: 'longest gap of a writer beside a new prompt, against a chunk',
    bar: 2,
    sequences: 2,
    contextTokens: 2_048,
    take: writersGap,
  },
  {
    name: `event-loop delay p99 of the parent under 16 streams, against idle + ${allowedDelayMs} ms`,
    bar: 1,
    sequences: 16,
    contextTokens: 512,
    take: parentsDelay,
  },
];
