import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import OpenAI from 'openai';
import { buildGateway, type Gateway } from '../src/assembly/gateway.ts';
import { parseConfig } from '../src/assembly/load-config.ts';
import { loadContract } from '../src/contract/load.ts';
import type { ContractName } from '../src/contract/schema.ts';
import type { Embedder, EmbedRequest } from '../src/inference/embedder.ts';
import { startEmbedder } from '../src/inference/start-embedder.ts';
import { createEstimatePolicy } from '../src/router/policies/estimate.ts';
import { gistOf } from '../src/router/policies/gist.ts';
import { readHeads } from '../src/router/policies/heads.ts';
import type { ProblemReader } from '../src/router/policies/problem-reading.ts';
import { createProblemReader } from '../src/router/policies/read-problem.ts';
import { elsewhere, type SkillCounts } from '../src/router/policies/skills.ts';
import { startOpenAiServer } from '../test/support/loopback/openai-server.ts';
import { accuracyOf, costOf, type ReplayPack, readReplayPack, strongest } from './replay-pack.ts';

/*
 * Measures `estimate` through the served gateway on recorded outcomes: experts on loopback answer what real models
 * answered, with the recorded tokens at list prices. One line of JSON a setting; nothing is chosen here.
 *
 *   npx tsx scripts/evaluate-estimate.ts --pack zeroeval --split validation --cost 0.02 --cost 0.1
 *
 * The five worked examples that a recording was prompted with are not in the pack; filler of their length stands for them.
 */

const { values: options } = parseArgs({
  options: {
    pack: { type: 'string', multiple: true, default: ['llmrouter', 'zeroeval', 'mmlu_pro'] },
    split: { type: 'string', default: 'validation' },
    /** Weight of cost beside weight 1 of quality. */
    cost: { type: 'string', multiple: true, default: ['0.1'] },
    /** `cards` as calibrated, or `feedback`: cards and the outcomes of the train split. */
    skills: { type: 'string', default: 'cards' },
    most: { type: 'string', default: '1000000' },
    replay: { type: 'string', default: process.env['ORCHESTRA_REPLAY'] ?? '../shared/data/replay' },
    /** Of the policy: `slots-1` knows no attempts. Packs without recorded answers are run under it anyway. */
    contract: { type: 'string', default: 'slots-2' },
    /** Compares attempts at questions with options too, which `estimate` itself does not. */
    vote: { type: 'boolean', default: false },
    /** Instead of models/estimate-heads.json. */
    heads: { type: 'string' },
    /** Keeps the vectors of the problems between runs. */
    vectors: { type: 'string' },
  },
});

interface Setting {
  readonly pack: string;
  readonly costWeight: number;
}

const embeddingPath = resolve('models/all-minilm-l6-v2.Q8_0.gguf');
const neverAborted = new AbortController().signal;

async function main(): Promise<void> {
  const embedder = await startEmbedder({ modelPath: embeddingPath, threads: 1, mostTokens: 256 });
  try {
    for (const name of options.pack) await measurePack(name, embedder);
  } finally {
    await embedder.close();
  }
}

async function measurePack(name: string, embedder: Embedder): Promise<void> {
  const pack = readReplayPack(options.replay, name);
  const rows = pack.items
    .flatMap(({ split }, row) => (split === options.split ? [row] : []))
    .slice(0, Number(options.most));
  const known = rememberVectors(embedder, options.vectors);
  await known.learn(rows.map((row) => pack.items[row]?.prompt ?? ''));
  const gateway = await startGateway(pack, name, known.embedder);
  try {
    for (const weight of options.cost) await measure({ pack: name, costWeight: Number(weight) }, pack, rows, gateway);
  } finally {
    await gateway.close();
  }
}

interface Tally {
  right: number;
  usd: number;
  calls: number;
}

async function measure(setting: Setting, pack: ReplayPack, rows: readonly number[], gateway: Served): Promise<void> {
  const sum: Tally = { right: 0, usd: 0, calls: 0 };
  const startedAtMs = performance.now();
  const waiting = [...rows];
  const work = async () => {
    for (let row = waiting.pop(); row !== undefined; row = waiting.pop()) {
      const { right, usd, calls } = await ask(setting, pack, row, gateway);
      sum.right += Number(right);
      sum.usd += usd;
      sum.calls += calls;
    }
  };
  // A few at a time, so that gateway and experts need not wait for each other's sockets.
  await Promise.all([work(), work(), work(), work()]);
  const count = rows.length;
  console.log(
    JSON.stringify({
      ...setting,
      split: options.split,
      skills: options.skills,
      contract: contractFor(setting.pack),
      items: count,
      accuracy: round(sum.right / count, 4),
      usdPerThousand: round((sum.usd / count) * 1000, 4),
      shareOfStrongest: round(sum.usd / count / costOf(pack, rows, strongest(pack)), 3),
      callsPerRequest: round(sum.calls / count, 2),
      strongest: round(accuracyOf(pack, rows, strongest(pack)), 4),
      msPerRequest: round((performance.now() - startedAtMs) / count, 1),
    }),
  );
}

async function ask(
  { costWeight }: Setting,
  pack: ReplayPack,
  row: number,
  { client, calls }: Served,
): Promise<Tally & object> {
  const item = pack.items[row];
  if (!item) throw new Error(`there is no row ${row}`);
  const filler = Math.max(0, item.sentTokens - item.promptTokens) * 4;
  const body = {
    model: 'orchestra',
    messages: [
      { role: 'system', content: `item ${row} ${'x '.repeat(filler / 2)}` },
      { role: 'user', content: item.prompt },
    ],
    preferences: { weights: weightsFor(costWeight) },
  } as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming; // `preferences` is ours, not OpenAI's.
  const reply = await client.chat.completions.create(body);
  const { cost } = (reply as unknown as { x_orchestra: { cost: { total: number } } }).x_orchestra;
  const writer = /^(\w+):/.exec(reply.choices[0]?.message.content ?? '')?.[1];
  const model = pack.models.findIndex(({ anonymousId }) => anonymousId === writer);
  if (model < 0) throw new Error('an answer that no recorded model gave');
  const made = calls.get(row) ?? 0;
  calls.delete(row);
  return { right: Number(pack.outcome(row, model).right), usd: cost.total, calls: made };
}

/** A request's weights are at most 1, so beyond that it is quality that counts less. */
const weightsFor = (cost: number) => ({
  quality: 1 / Math.max(1, cost),
  cost: Math.min(1, cost),
  latency: 0,
  privacy: 0,
});

interface Served {
  readonly client: OpenAI;
  /** Calls of experts so far, by row. */
  readonly calls: Map<number, number>;
  close(): Promise<void>;
}

async function startGateway(pack: ReplayPack, name: string, embedder: Embedder): Promise<Served> {
  const calls = new Map<number, number>();
  const experts = await startOpenAiServer(({ body }) => {
    const messages = body['messages'] as { role: string; content: string }[];
    const row = Number(/^item (\d+) /.exec(messages[0]?.content ?? '')?.[1]);
    const model = pack.models.findIndex(({ anonymousId }) => anonymousId === body['model']);
    if (Number.isNaN(row) || model < 0) throw new Error('an expert was asked what was never recorded');
    calls.set(row, (calls.get(row) ?? 0) + 1);
    const { outputTokens, answerClass } = pack.outcome(row, model);
    const answer =
      answerClass === undefined ? 'no usable answer came of this, whatever was tried' : `\\boxed{class-${answerClass}}`;
    return {
      kind: 'completion',
      text: [`${pack.models[model]?.anonymousId}: ${answer}`],
      usage: { prompt_tokens: pack.items[row]?.sentTokens ?? 0, completion_tokens: outputTokens },
    };
  });
  const readProblem = createProblemReader(embedder, readHeads(options.heads));
  const home = mkdtempSync(join(tmpdir(), 'orchestra-replay-'));
  const gateway = await buildGateway({
    config: configFor(pack, experts.url),
    environment: {},
    home,
    modelsFolder: home,
    embedding: false,
    policy: createEstimatePolicy({
      // Where no answers were recorded, attempts have nothing to be compared by.
      contract: loadContract(contractFor(name)),
      readProblem: options.vote ? voting(readProblem) : readProblem,
      ...(options.skills === 'feedback' ? { skillCounts: countsOf(pack) } : {}),
    }),
    logger: false,
  });
  await gateway.app.listen({ host: '127.0.0.1', port: 0 });
  return {
    client: new OpenAI({ baseURL: `${addressOf(gateway)}/v1`, apiKey: 'none', maxRetries: 0 }),
    calls,
    async close() {
      await gateway.close();
      await experts.close();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

const voting =
  (read: ProblemReader): ProblemReader =>
  async (...input) => ({ ...(await read(...input)), comparable: 0.95 });

const contractFor = (pack: string): ContractName =>
  pack === 'llmrouter' || options.contract === 'slots-1' ? 'slots-1' : 'slots-2';

function addressOf({ app }: Gateway): string {
  const { port } = app.server.address() as AddressInfo; // A TCP listener always has one.
  return `http://127.0.0.1:${port}`;
}

function configFor(pack: ReplayPack, url: string) {
  const slots = pack.models.map(({ anonymousId, usdPerMillion, skills, meanOutputTokens }, index) => [
    `answer-${index + 1}`,
    {
      role: 'answer',
      upstream: 'recorded',
      model: anonymousId,
      quality: 'a recorded model',
      skills,
      price: usdPerMillion,
      output_tokens: meanOutputTokens,
      context: 400_000,
      max_output: 32_000,
      latency_ms: 1000,
    },
  ]);
  return parseConfig(
    {
      store: 'memory',
      upstreams: { recorded: { kind: 'openai', base_url: url, api_key: 'none', privacy: 'self_hosted' } },
      slots: Object.fromEntries(slots),
    },
    {},
  );
}

/** As if users had judged every answer of every model in the train split; what no card names is counted as elsewhere. */
function countsOf(pack: ReplayPack): SkillCounts {
  const counts = new Map<string, { right: number; wrong: number }>();
  const named = new Set(pack.models.flatMap(({ skills }) => Object.keys(skills)));
  for (const [row, { split, domain }] of pack.items.entries()) {
    if (split !== 'train') continue;
    for (const [index, { anonymousId }] of pack.models.entries()) {
      const key = `recorded/${anonymousId} ${named.has(domain) ? domain : elsewhere}`;
      const { right, wrong } = counts.get(key) ?? { right: 0, wrong: 0 };
      const won = Number(pack.outcome(row, index).right);
      counts.set(key, { right: right + won, wrong: wrong + 1 - won });
    }
  }
  return { find: (model, domain) => counts.get(`${model} ${domain}`) };
}

/** Each problem is embedded once, however many settings are measured on it. */
function rememberVectors(embedder: Embedder, file: string | undefined) {
  const known = new Map<string, Float32Array>();
  if (file !== undefined && existsSync(file)) {
    const stored: [string, number[]][] = JSON.parse(readFileSync(file, 'utf8'));
    for (const [text, vector] of stored) known.set(text, Float32Array.from(vector));
  }
  return {
    async learn(texts: readonly string[]): Promise<void> {
      const missing = texts.map(gistOf).filter((text) => !known.has(text));
      const { vectors } = await embedder.embed({
        texts: missing,
        use: 'query',
        longTexts: 'cut',
        signal: neverAborted,
      });
      for (const [index, text] of missing.entries()) known.set(text, vectors[index] ?? new Float32Array());
      if (file === undefined || missing.length === 0) return;
      writeFileSync(file, JSON.stringify([...known].map(([text, vector]) => [text, [...vector]])));
    },
    embedder: {
      info: embedder.info,
      close: async () => undefined,
      embed: async (request: EmbedRequest) => {
        const vectors = request.texts.map((text) => known.get(text));
        const isKnown = vectors.every((vector) => vector !== undefined);
        return isKnown ? { vectors, tokens: 0, cutTexts: 0 } : embedder.embed(request);
      },
    } satisfies Embedder,
  };
}

const round = (value: number, digits: number): number => Number(value.toFixed(digits));

await main();
