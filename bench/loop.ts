import OpenAI from 'openai';
import { type BenchOptions, type Figure, figure, median, type Report } from './figures.ts';
import { type MeasuredProcess, startOwn } from './measured-process.ts';
import { costsPerRequest } from './profile.ts';
import { clientKey, question, streamedText } from './wire.ts';

/**
 * What one orchestrated turn costs beside the models' own time: an application that asks the gateway with OpenAI's
 * client, beside one that asks the same expert directly. The decision is scripted and takes no time, and the expert
 * answers at once; preferences, masks, holds, rendering, the expert call, the record and the report are all there.
 */

const paths = ['direct', 'relay', 'turn'] as const;
type PathName = (typeof paths)[number];

interface Path {
  readonly name: PathName;
  readonly client: OpenAI;
  readonly model: string;
}

interface Load {
  readonly streamed: boolean;
  readonly concurrency: number;
  readonly requests: number;
}

interface Sample {
  readonly path: PathName;
  readonly load: Load;
  readonly clientCpuUs: number;
  /** 0 for the direct path. */
  readonly gatewayCpuUs: number;
  readonly p50Ms: number;
}

const loads = (quick: boolean): Load[] => [
  { streamed: false, concurrency: 1, requests: quick ? 150 : 400 },
  { streamed: false, concurrency: 10, requests: quick ? 600 : 1500 },
  { streamed: true, concurrency: 10, requests: quick ? 300 : 1000 },
];

/** The application's and the gateway's processor time together, to the application's alone. */
const totalBar = 4;
/** A turn's processor time in the gateway to a relay's: what deciding and recording may add. */
const turnBar = 2;

export async function loopBench({ home, quick, profile }: BenchOptions): Promise<Report> {
  const upstream = await startOwn('upstream');
  const gateway = await startOwn('gateway', upstream.url, home).catch(async (error: unknown) => {
    await upstream.stop();
    throw error;
  });
  const through = (url: string) => new OpenAI({ baseURL: url, apiKey: clientKey, maxRetries: 0 });
  const viaGateway = through(gateway.url);
  const all: Path[] = [
    { name: 'direct', client: through(upstream.url), model: 'bench' },
    { name: 'relay', client: viaGateway, model: 'loopback/bench' },
    { name: 'turn', client: viaGateway, model: 'orchestra' },
  ];
  try {
    for (const path of all) {
      await askAll(path, { streamed: false, concurrency: 10, requests: 1500 });
      await askAll(path, { streamed: true, concurrency: 10, requests: 500 });
    }
    if (profile) return await profiled(gateway, all);
    const samples: Sample[] = [];
    for (let round = 0; round < (quick ? 3 : 5); round++) {
      for (const load of loads(quick)) {
        for (const path of all) samples.push(await sample(path, load, gateway));
      }
    }
    return reportOf(samples);
  } finally {
    await Promise.all([gateway.stop(), upstream.stop()]);
  }
}

async function askAll(path: Path, { streamed, concurrency, requests }: Load): Promise<number[]> {
  const latenciesMs: number[] = [];
  let asked = 0;
  const worker = async () => {
    while (asked < requests) {
      asked += 1;
      const startedAt = performance.now();
      await (streamed ? askStreamed(path) : askWhole(path));
      latenciesMs.push(performance.now() - startedAt);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  return latenciesMs;
}

const messages = [...question.messages];

async function askWhole({ client, model }: Path): Promise<void> {
  const answer = await client.chat.completions.create({ ...question, model, messages });
  if (!answer.choices[0]?.message.content) throw new Error(`${model} answered nothing`);
}

async function askStreamed({ client, model }: Path): Promise<void> {
  const options = { stream: true, stream_options: { include_usage: true } } as const;
  let text = '';
  for await (const chunk of await client.chat.completions.create({ ...question, ...options, model, messages })) {
    text += chunk.choices[0]?.delta.content ?? '';
  }
  if (text !== streamedText) throw new Error(`${model} streamed ${text.length} of ${streamedText.length} characters`);
}

async function sample(path: Path, load: Load, gateway: MeasuredProcess): Promise<Sample> {
  const gatewayBefore = await gateway.cpu();
  const clientBefore = process.cpuUsage();
  const latenciesMs = await askAll(path, load);
  const { user, system } = process.cpuUsage(clientBefore);
  const gatewayAfter = await gateway.cpu();
  const spentUs = path.name === 'direct' ? 0 : gatewayAfter.cpuUs - gatewayBefore.cpuUs;
  return {
    path: path.name,
    load,
    clientCpuUs: (user + system) / load.requests,
    gatewayCpuUs: spentUs / load.requests,
    p50Ms: median(latenciesMs),
  };
}

const nameOf = ({ streamed, concurrency }: Load) => `${streamed ? 'streamed' : 'whole'}.c${concurrency}`;

function reportOf(samples: readonly Sample[]): Report {
  const rows: string[][] = [];
  const figures: Figure[] = [];
  for (const load of new Set(samples.map((one) => nameOf(one.load)))) {
    const middle = (path: PathName, field: 'clientCpuUs' | 'gatewayCpuUs' | 'p50Ms') =>
      median(samples.filter((one) => one.path === path && nameOf(one.load) === load).map((one) => one[field]));
    for (const path of paths) {
      const cpu = [middle(path, 'clientCpuUs').toFixed(0), middle(path, 'gatewayCpuUs').toFixed(0)];
      const addedMs = middle(path, 'p50Ms') - middle('direct', 'p50Ms');
      rows.push([load, path, ...cpu, middle(path, 'p50Ms').toFixed(2), addedMs.toFixed(2)]);
    }
    const turnUs = middle('turn', 'gatewayCpuUs');
    const directUs = middle('direct', 'clientCpuUs');
    figures.push(
      figure(`loop.total_cpu_us.${load}.direct`, middle('turn', 'clientCpuUs') + turnUs, directUs, totalBar),
    );
    figures.push(figure(`loop.gateway_cpu_us.${load}.relay`, turnUs, middle('relay', 'gatewayCpuUs'), turnBar));
  }
  return {
    columns: ['load', 'path', 'client CPU us', 'gateway CPU us', 'p50 ms', 'added ms'],
    rows,
    figures,
    notes: ['Per request, medians of interleaved rounds. `--profile` shows where the gateway spends a turn.'],
  };
}

async function profiled(gateway: MeasuredProcess, all: readonly Path[]): Promise<Report> {
  const rows: (readonly string[])[] = [];
  const load = { streamed: false, concurrency: 10, requests: 4000 };
  for (const path of all.filter(({ name }) => name !== 'direct')) {
    await gateway.startProfile();
    await askAll(path, load);
    rows.push(...costsPerRequest(`${path.name} ${nameOf(load)}`, await gateway.stopProfile(), load.requests).rows);
  }
  return { columns: ['where', 'us/request'], rows, figures: [], notes: [] };
}
