import { existsSync } from 'node:fs';
import type { ChatMessage } from '../src/contract/chat.ts';
import { smolLm2Path } from '../test/support/gguf/smollm2.ts';
import { type Contestant, llamaServer, ours, plainLibrary, type Setting, startOurs } from './engine/contestants.ts';
import { decisionCosts } from './engine/decision.ts';
import { type Loop, playLoop } from './engine/loop-of-runs.ts';
import { shapedModelPath } from './engine/shaped-model.ts';
import { type Wait, waits } from './engine/waits.ts';
import { type BenchOptions, type Figure, figure, median, type Report } from './figures.ts';

/**
 * Our engine beside llama-server on the same GGUF, one compute thread each, round by round in turn. Without
 * ORCHESTRA_LLAMA_SERVER (see build-llama-server.sh) it stands beside node-llama-cpp used the plain way.
 */

interface Measure {
  readonly name: string;
  readonly bar: number;
  /** One number, the smaller the better. */
  take(contestant: Contestant, round: number): Promise<Readonly<Record<string, number>>>;
  readonly parts: readonly { readonly key: string; readonly bar: number }[];
  readonly setting: Omit<Setting, 'modelPath'>;
}

const words = (count: number, seed: string): string => seed + ' the answer of good search and'.repeat(count / 6);

const chat = (...texts: string[]): ChatMessage[] => texts.map((content) => ({ role: 'user', content }));

const decode = (parallel: number, bar: number): Measure => ({
  name: `decode CPU ms a token, ${parallel} parallel`,
  bar,
  parts: [{ key: 'cpu', bar }],
  setting: { sequences: parallel, contextTokens: 512 },
  async take(contestant, round) {
    const tokens = 48;
    const before = contestant.cpuMs();
    const texts = Array.from({ length: parallel }, (_, index) => `${round} ${index} `);
    const answers = await Promise.all(texts.map((text) => contestant.ask(chat(text), tokens)));
    const written = answers.reduce((sum, { outputTokens }) => sum + outputTokens, 0);
    return { cpu: (contestant.cpuMs() - before) / written };
  },
});

const prefill: Measure = {
  name: 'prefill CPU ms a token',
  bar: 1,
  parts: [{ key: 'cpu', bar: 1 }],
  setting: { sequences: 1, contextTokens: 2_048 },
  async take(contestant, round) {
    const tokens = 1_000;
    const before = contestant.cpuMs();
    await contestant.ask(chat(words(tokens, `${round}`)), 1);
    return { cpu: (contestant.cpuMs() - before) / tokens };
  },
};

const gap: Measure = {
  name: 'longest gap of a writer beside a new prompt, ms',
  bar: 1,
  parts: [{ key: 'gap', bar: 1 }],
  setting: { sequences: 2, contextTokens: 2_048 },
  async take(contestant, round) {
    let reader: Promise<unknown> | undefined;
    const read = () => {
      reader = contestant.ask(chat(words(1_500, `${round}`)), 1);
    };
    const { longestGapMs } = await contestant.ask(chat(`write ${round} `), 64, read);
    await reader;
    return { gap: longestGapMs };
  },
};

const loop = (shape: Loop, bars: { cpu: number; first: number; later: number }): Measure => ({
  name: `${shape.runs} runs on ${shape.sequences} sequences`,
  bar: bars.cpu,
  parts: Object.entries(bars).map(([key, bar]) => ({ key, bar })),
  setting: { sequences: shape.sequences, contextTokens: 2_048 },
  take: (contestant, round) => playLoop(contestant, shape, round),
});

const measures: readonly Measure[] = [
  decode(1, 1.08),
  decode(4, 1.08),
  decode(8, 1),
  decode(16, 1),
  prefill,
  gap,
  loop({ runs: 4, sequences: 4, turns: 4 }, { cpu: 0.65, first: 0.35, later: 0.75 }),
  loop({ runs: 6, sequences: 3, turns: 3 }, { cpu: 0.75, first: 1, later: 1 }),
];

export async function engineBench({ quick, only }: BenchOptions): Promise<Report> {
  const program = process.env['ORCHESTRA_LLAMA_SERVER'];
  const startPeer = program ? (setting: Setting) => llamaServer(program, setting) : plainLibrary;
  const modelPath = process.env['ORCHESTRA_BENCH_MODEL'] ?? shapedModelPath();
  const figures: Figure[] = [];
  let peerName = '';
  for (const measure of measures.filter(({ name }) => !only || name.includes(only))) {
    const setting = { ...measure.setting, modelPath };
    const contestants = [await ours(setting), await startPeer(setting)] as const;
    peerName = contestants[1].name;
    try {
      figures.push(...(await compare(measure, contestants, quick ? 1 : 5)));
    } finally {
      await Promise.all(contestants.map((contestant) => contestant.stop()));
    }
  }
  for (const wait of waits.filter(({ name }) => !only || name.includes(only))) {
    figures.push(await waitOf(wait, modelPath, quick ? 1 : 5));
  }
  if (!only || 'decision'.includes(only)) figures.push(...(await decisions(quick ? 1 : 5)));
  const notes = [
    `ours | ${peerName || 'what the figure names'}, one compute thread each, medians; CPU of the process with the model alone`,
    `model: ${modelPath}`,
  ];
  if (!program) notes.push('no llama-server: set ORCHESTRA_LLAMA_SERVER to compare with it');
  return { columns: ['figure'], rows: [], figures, notes };
}

/** Warm-up first, then in turn, so that both see the same weather. */
async function compare(measure: Measure, contestants: readonly [Contestant, Contestant], rounds: number) {
  const seen = contestants.map((): Readonly<Record<string, number>>[] => []);
  for (const contestant of contestants) await contestant.ask(chat('warm'), 4);
  for (let round = 0; round < rounds; round++) {
    for (const [index, contestant] of contestants.entries()) seen[index]?.push(await measure.take(contestant, round));
  }
  const figures = measure.parts.map(({ key, bar }) => {
    const [mine = 0, theirs = 0] = seen.map((samples) => median(samples.map((sample) => sample[key] ?? Number.NaN)));
    return figure(`${measure.name}: ${key}`, mine, theirs, bar);
  });
  for (const { name, ours: mine, peer, ratio } of figures) console.log(`${name}  ${mine}  ${peer}  ${ratio}`);
  return figures;
}

/** On our own engine alone. */
async function waitOf({ name, bar, sequences, contextTokens, take }: Wait, modelPath: string, rounds: number) {
  const { engine } = await startOurs({ modelPath, sequences, contextTokens });
  const taken: Awaited<ReturnType<typeof take>>[] = [];
  for (let round = 0; round < rounds; round++) taken.push(await take(engine, round));
  await engine.close();
  return figure(name, median(taken.map(({ wait }) => wait)), median(taken.map(({ beside }) => beside)), bar);
}

/** Beside the bare reading of as many tokens; none without SmolLM2. */
async function decisions(rounds: number): Promise<Figure[]> {
  if (!existsSync(smolLm2Path)) return [];
  const measured = await startOurs({ modelPath: smolLm2Path, sequences: 1, contextTokens: 2_048 });
  const figures: Figure[] = [];
  for (const form of ['trie', 'branches'] as const) {
    const costs: Awaited<ReturnType<typeof decisionCosts>>[] = [];
    for (let round = 0; round < rounds; round++) costs.push(await decisionCosts(measured, form, round));
    const middle = (key: 'decision' | 'bare') => median(costs.map((cost) => cost[key]));
    figures.push(figure(`decision over 12 slots, ${form}: CPU ms a token`, middle('decision'), middle('bare'), 1.15));
  }
  await measured.engine.close();
  return figures;
}
