import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { z } from 'zod';
import { buildGateway, type Gateway } from '../src/assembly/gateway.ts';
import { parseConfig } from '../src/assembly/load-config.ts';
import { type ReceivedRequest, waitUntil } from '../test/support/loopback/listener.ts';
import { type OpenAiServer, startOpenAiServer } from '../test/support/loopback/openai-server.ts';
import { startTavilyServer, type TavilyServer } from '../test/support/loopback/tavily-server.ts';

/*
 * Writes docs/preference-table.md: the same ten questions under six profiles and three limits, decided by `estimate`, run
 * through the served API against loopback servers with exact prices. What stands there is what happened.
 */

const questions = [
  'Hello! How are you?',
  'What is the capital of Australia?',
  'Who won the latest Formula 1 race?',
  'According to our documentation, how do I set a budget for one request?',
  'Calculate 4817 * 293 - 18 % of 52000.',
  'Prove that the square root of 2 is irrational.',
  'Find the bug in this function: def mean(xs): return sum(xs) / len(x)',
  'Translate "good morning" into French.',
  'How many weekdays are there between 3 May and 19 August 2027?',
  'Compare the refund policy in our documents with European consumer law.',
];

const profiles = ['balanced', 'best', 'cheap', 'fast', 'private', 'local'] as const;
const limits = [
  ['max_cost_usd: 0.002', { max_cost_usd: 0.002 }],
  ['max_turns: 1', { max_turns: 1 }],
  ['tools: deny role:search', { tools: { deny: ['role:search'] } }],
] as const;

const slots = (openAi: string, tavily: string) => ({
  upstreams: {
    cloud: { kind: 'openai', base_url: openAi, api_key: 'none', privacy: 'no_training', regions: ['us'] },
    own: { kind: 'openai', base_url: openAi, api_key: 'none', privacy: 'self_hosted', regions: ['eu'] },
    box: { kind: 'openai', base_url: openAi, api_key: 'none', privacy: 'local' },
  },
  tools: {
    web: { kind: 'tavily', api_key: 'none', base_url: tavily, privacy: 'no_training', price: { per_call: 0.008 } },
    docs: { kind: 'local_search', folders: [fileURLToPath(new URL('../docs', import.meta.url))], privacy: 'any' },
    python: { kind: 'sandbox' },
  },
  slots: {
    'answer-1': {
      role: 'answer',
      upstream: 'cloud',
      model: 'large',
      quality: 'strongest general model',
      price: { input: 1.25, output: 10 },
      latency_ms: 20_000,
      context: 200_000,
    },
    'answer-2': {
      role: 'answer',
      upstream: 'cloud',
      model: 'medium',
      quality: 'good general model',
      price: { input: 0.25, output: 2 },
      latency_ms: 6000,
      context: 200_000,
    },
    'answer-3': {
      role: 'answer',
      upstream: 'own',
      model: 'maths',
      quality: 'strong at mathematics',
      price: { input: 0.2, output: 0.2 },
      latency_ms: 9000,
      context: 32_000,
    },
    'answer-4': {
      role: 'answer',
      upstream: 'own',
      model: 'small',
      quality: 'small general model',
      price: { input: 0.05, output: 0.1 },
      latency_ms: 2000,
      context: 32_000,
    },
    'answer-5': {
      role: 'answer',
      upstream: 'box',
      model: 'tiny',
      quality: 'very small model: greetings, short rewrites',
      price: { input: 0, output: 0 },
      latency_ms: 1500,
      context: 32_000,
    },
    'reasoner-1': {
      role: 'enhance_reasoning',
      upstream: 'own',
      model: 'coder',
      sandbox: 'python',
      quality: 'good, writes and runs python',
      price: { input: 0.2, output: 0.2 },
      latency_ms: 5000,
      context: 32_000,
    },
    'search-1': { role: 'search', tools: ['docs'], quality: 'documents of this project', latency_ms: 50 },
    'search-2': { role: 'search', tools: ['web'], writer: 'answer-4', quality: 'the web', latency_ms: 1500 },
  },
});

/** Answers of a plausible length; a query or a program where one was asked for. */
function reply({ body }: ReceivedRequest) {
  const text = JSON.stringify(body['messages']);
  if (text.includes('<query>')) return { kind: 'completion', text: ['<query>', 'key words', '</query>'] } as const;
  if (body['model'] === 'coder') return { kind: 'completion', text: ['```python\nprint(42)\n```'] } as const;
  return { kind: 'completion', text: Array.from({ length: 180 }, () => 'word ') } as const;
}

const removal = z.object({ slot: z.string() });
const report = z.object({
  status: z.string(),
  cost: z.object({ total: z.number() }),
  turns: z.array(
    z.object({
      slot: z.string(),
      role: z.string(),
      outcome: z.string(),
      ruled_out: z.array(removal.extend({ reason: z.string() })),
    }),
  ),
  limits_applied: z.array(z.object({ limit: z.string(), removed: z.array(removal) })),
});
interface Cell {
  readonly path: string;
  readonly cost: string;
  readonly ruledOut: readonly string[];
}

async function ask(client: OpenAI, content: string, preferences: object): Promise<Cell> {
  const request = {
    model: 'orchestra',
    messages: [{ role: 'user' as const, content }],
    preferences: { explain: 'full', ...preferences },
  };
  const { data } = await client.chat.completions.create(request).withResponse();
  const { x_orchestra: told } = z.object({ x_orchestra: report }).parse(data);
  const steps = told.turns.map(({ slot, role, outcome }) => {
    const name = role === 'attempt' ? `try ${slot}` : slot;
    return outcome.startsWith('failed') ? `${name} ✗` : name;
  });
  const ruledOut = [
    ...told.limits_applied.map(({ limit, removed }) => `${limit}: ${removed.map(({ slot }) => slot).join(', ')}`),
    ...new Set(told.turns.flatMap((turn) => turn.ruled_out.map(({ slot, reason }) => `${slot}: ${reason}`))),
  ];
  return { path: steps.join(' → '), cost: `$${told.cost.total.toFixed(6)}`, ruledOut };
}

interface Site {
  readonly gateway: Gateway;
  readonly client: OpenAI;
  readonly openAi: OpenAiServer;
  readonly tavily: TavilyServer;
}

async function open(home: string): Promise<Site> {
  const openAi = await startOpenAiServer(reply);
  const tavily = await startTavilyServer();
  const config = parseConfig({ store: 'memory', ...slots(openAi.url, tavily.url) }, {});
  const gateway = await buildGateway({ config, environment: {}, home, modelsFolder: home, logger: false });
  await gateway.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = gateway.app.server.address() as AddressInfo; // A TCP listener always has one.
  const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: 'none', maxRetries: 0 });
  return { gateway, client, openAi, tavily };
}

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
const header = (cells: readonly string[]): string[] => [row(cells), row(cells.map(() => '---'))];

function page(byProfile: readonly (readonly Cell[])[], byLimit: readonly (readonly Cell[])[], calls: number): string {
  const numbered = questions.map((question, index) => `${index + 1}. ${question}`);
  const table = (cells: readonly (readonly Cell[])[], names: readonly string[]) => [
    ...header(['question', ...names]),
    ...cells.map((line, index) => row([`${index + 1}`, ...line.map(({ path, cost }) => `${path}<br>${cost}`)])),
  ];
  const ruled = [...new Set(byLimit.flat().flatMap(({ ruledOut }) => ruledOut))].sort();
  return [
    '# Preferences at work',
    '',
    `Made by \`npm run preference-table\` from ${questions.length * (profiles.length + limits.length)} runs through the served`,
    `API (${calls} calls to loopback servers), decided by \`estimate\`. The roster and its prices stand in the script; the`,
    'experts answer with 180 tokens of nothing, so costs compare routes, not answers.',
    '',
    ...numbered,
    '',
    '## Six profiles',
    '',
    ...table(byProfile, profiles),
    '',
    '## Three limits',
    '',
    ...table(
      byLimit,
      limits.map(([name]) => `\`${name}\``),
    ),
    '',
    '## What the limits ruled out',
    '',
    ...ruled.map((line) => `* ${line}`),
    '',
  ].join('\n');
}

const home = mkdtempSync(join(tmpdir(), 'orchestra-table-'));
const site = await open(home);
try {
  const lines = async (columns: readonly object[]) => {
    const cells: Cell[][] = [];
    for (const question of questions) {
      const line: Cell[] = [];
      for (const preferences of columns) line.push(await ask(site.client, question, preferences));
      cells.push(line);
    }
    return cells;
  };
  const byProfile = await lines(profiles.map((optimize) => ({ optimize })));
  const byLimit = await lines(limits.map(([, preferences]) => preferences));
  await waitUntil(() => site.openAi.requests.every(({ finished }) => finished), 'the last answer');
  const calls = site.openAi.requests.length + site.tavily.requests.length;
  writeFileSync(
    fileURLToPath(new URL('../docs/preference-table.md', import.meta.url)),
    page(byProfile, byLimit, calls),
  );
  console.log('docs/preference-table.md written');
} finally {
  await site.gateway.close();
  await Promise.all([site.openAi.close(), site.tavily.close()]);
  rmSync(home, { recursive: true, force: true });
}
