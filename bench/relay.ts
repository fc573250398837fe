import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { type BenchOptions, type Figure, figure, median, quantile, type Report } from './figures.ts';
import { load } from './load.ts';
import { type MeasuredProcess, startForeign, startOwn } from './measured-process.ts';
import { type CostTable, costsPerRequest } from './profile.ts';
import { bodyFor, checkAnswer, clientKey } from './wire.ts';

/**
 * What passing a request through costs: the gateway (keys, budget, prices, ledger and records on) beside the barest
 * proxy made of the same fastify and undici, the upstream itself, and on demand Portkey. Rounds are interleaved, and
 * what counts is processor time per request, because that does not depend on who else uses the machine.
 */

interface Path {
  readonly name: 'direct' | 'bare' | 'ours' | 'portkey';
  readonly process: MeasuredProcess;
  readonly headers: Readonly<Record<string, string>>;
  readonly model: string;
}

interface Load {
  readonly streamed: boolean;
  readonly concurrency: number;
  readonly requests: number;
}

interface Sample {
  readonly path: Path['name'];
  readonly load: Load;
  readonly cpuUs: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Keys, money and records may cost as much again as passing the bytes on does. */
const bareBar = 2;
const portkeyBar = 1;
/** So that frames travel one by one, as a fast model writes them. */
const framePaceMs = 5;
const concurrencies = [1, 10, 64] as const;
const wholeRequests = { 1: 400, 10: 2000, 64: 3000 } as const;
const streamedRequests = { 1: 15, 10: 60, 64: 256 } as const;

function loadsFor(quick: boolean): Load[] {
  const share = quick ? 0.4 : 1;
  return [false, true].flatMap((streamed) =>
    concurrencies.map((concurrency) => {
      const requests = (streamed ? streamedRequests : wholeRequests)[concurrency];
      return { streamed, concurrency, requests: Math.max(concurrency, Math.ceil(requests * share)) };
    }),
  );
}

export async function relayBench(options: BenchOptions): Promise<Report> {
  const upstream = await startOwn('upstream', String(framePaceMs));
  const paths: Path[] = [{ name: 'direct', process: upstream, headers: {}, model: 'bench' }];
  try {
    paths.push({ name: 'bare', process: await startOwn('bare-proxy', upstream.url), headers: {}, model: 'bench' });
    paths.push({
      name: 'ours',
      process: await startOwn('gateway', upstream.url, options.home),
      headers: { authorization: `Bearer ${clientKey}` },
      model: 'loopback/bench',
    });
    if (options.portkey) paths.push(await startPortkey(upstream.url));
    for (const path of paths) await warmUp(path);
    if (options.profile) return await profiled(paths);
    const loads = loadsFor(options.quick);
    return reportOf(await measure(paths, loads, options.quick ? 3 : 5), paths, loads);
  } finally {
    await Promise.all(paths.map(({ process }) => process.stop()));
  }
}

const ask = ({ process, headers, model }: Path, { streamed, requests, concurrency }: Load) =>
  load(
    { url: process.url, headers, body: bodyFor(model, streamed), check: (text) => checkAnswer(text, streamed) },
    requests,
    concurrency,
  );

/** Enough for the optimising compiler to have seen both kinds of answer. */
async function warmUp(path: Path): Promise<void> {
  await ask(path, { streamed: false, concurrency: 10, requests: 2000 });
  await ask(path, { streamed: true, concurrency: 32, requests: 96 });
}

async function measure(paths: readonly Path[], loads: readonly Load[], rounds: number): Promise<Sample[]> {
  const samples: Sample[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const asked of loads) {
      // Everybody goes first once in a while.
      const order = paths.map((_, index) => paths[(index + round) % paths.length]);
      for (const path of order) if (path) samples.push(await sample(path, asked));
    }
  }
  return samples;
}

async function sample(path: Path, asked: Load): Promise<Sample> {
  const before = await path.process.cpu();
  const { latenciesMs, wallMs } = await ask(path, asked);
  const after = await path.process.cpu();
  return {
    path: path.name,
    load: asked,
    cpuUs: (after.cpuUs - before.cpuUs) / asked.requests,
    requestsPerSecond: (1000 * asked.requests) / wallMs,
    p50Ms: median(latenciesMs),
    p99Ms: quantile(latenciesMs, 0.99),
  };
}

function reportOf(samples: readonly Sample[], paths: readonly Path[], loads: readonly Load[]): Report {
  const rows: string[][] = [];
  const figures: Figure[] = [];
  for (const asked of loads) {
    const cpuUs = new Map<Path['name'], number>();
    for (const { name } of paths) {
      const ofPath = samples.filter(({ path, load }) => path === name && load === asked);
      const middle = (field: 'cpuUs' | 'requestsPerSecond' | 'p50Ms' | 'p99Ms') =>
        median(ofPath.map((one) => one[field]));
      cpuUs.set(name, middle('cpuUs'));
      const numbers = [middle('cpuUs').toFixed(0), middle('requestsPerSecond').toFixed(0)];
      rows.push([nameOf(asked), name, ...numbers, middle('p50Ms').toFixed(2), middle('p99Ms').toFixed(2)]);
    }
    const compare = (peer: Path['name'], bar: number) => {
      const [own, theirs] = [cpuUs.get('ours'), cpuUs.get(peer)];
      if (own === undefined || theirs === undefined) return;
      figures.push(figure(`relay.cpu_us.${nameOf(asked)}.${peer}`, own, theirs, bar));
    };
    compare('bare', bareBar);
    compare('portkey', portkeyBar);
  }
  return {
    columns: ['load', 'path', 'CPU us/request', 'requests/s', 'p50 ms', 'p99 ms'],
    rows,
    figures,
    notes: ['CPU is that of the process asked (direct: the upstream). Medians of interleaved rounds.'],
  };
}

const nameOf = ({ streamed, concurrency }: Load) => `${streamed ? 'streamed' : 'whole'}.c${concurrency}`;

/** Where the gateway's time goes, beside where the bare proxy's goes. */
async function profiled(paths: readonly Path[]): Promise<Report> {
  const loads: Load[] = [
    { streamed: false, concurrency: 10, requests: 6000 },
    { streamed: true, concurrency: 64, requests: 512 },
  ];
  const tables: CostTable[] = [];
  for (const asked of loads) {
    for (const path of paths.filter(({ name }) => name !== 'direct')) {
      await path.process.startProfile();
      await ask(path, asked);
      const title = `${path.name} ${nameOf(asked)}`;
      tables.push(costsPerRequest(title, await path.process.stopProfile(), asked.requests));
    }
  }
  return { columns: ['where', 'us/request'], rows: tables.flatMap(({ rows }) => rows), figures: [], notes: [] };
}

async function startPortkey(upstreamUrl: string): Promise<Path> {
  const program = fileURLToPath(import.meta.resolve('./node_modules/@portkey-ai/gateway/build/start-server.js'));
  if (!existsSync(program)) throw new Error('Portkey is not installed: run `npm --prefix bench ci`');
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/v1`;
  const process = await startForeign(program, ['--headless', `--port=${port}`], url);
  const headers = {
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': upstreamUrl,
    authorization: 'Bearer anything',
  };
  const path: Path = { name: 'portkey', process, headers, model: 'bench' };
  await untilAnswering(path);
  return path;
}

async function untilAnswering(path: Path): Promise<void> {
  const stopAt = Date.now() + 20_000;
  for (;;) {
    try {
      await ask(path, { streamed: false, concurrency: 1, requests: 1 });
      return;
    } catch (error) {
      if (Date.now() > stopAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}
