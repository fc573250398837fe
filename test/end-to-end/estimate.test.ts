import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { loadContract } from '../../src/contract/load.ts';
import { createEstimatePolicy } from '../../src/router/policies/estimate.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { user } from '../support/http.ts';
import { decide } from './report.ts';

/** The policy without a language model, asked through the API: what it would do first, and why. */
const folder = mkdtempSync(join(tmpdir(), 'orchestra-docs-'));
const documents = {
  'budget.md': '# How do I set a budget for one request?\n\nSend `max_cost_usd` in `preferences`.',
  'privacy.md': '# Privacy\n\nA class is what an upstream promises.',
  'streams.md': '# Streams\n\nAn answer is streamed as it is written.',
};
for (const [name, text] of Object.entries(documents)) writeFileSync(join(folder, name), text);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** With a sandbox, whose self-test takes seconds; nothing is spent and nothing kept, so one serves all. */
let calculating: TestGateway;
const open: TestGateway[] = [];
beforeAll(async () => {
  calculating = await build({ sandbox: true });
});
afterEach(async () => {
  for (const gateway of open.splice(0)) await gateway.close();
});
afterAll(() => calculating.close());

const expert = (model: string, quality: string, price: number, latency_ms: number) => ({
  upstream: 'loopback',
  model,
  quality,
  price: { input: price, output: 4 * price },
  latency_ms,
  max_output: 4000,
});
const answer = (...facts: Parameters<typeof expert>) => ({ role: 'answer', ...expert(...facts) });
const reasoner = (...facts: Parameters<typeof expert>) => ({
  role: 'enhance_reasoning',
  sandbox: 'python',
  ...expert(...facts),
});

/** Answers as the default configuration has them, free documents and, on demand, two who calculate. */
async function build({ sandbox = false, prices = [0.75, 1] } = {}): Promise<TestGateway> {
  const [first = 0, second = 0] = prices;
  const reasoners = {
    'reasoner-1': reasoner('small', 'very small local model, weak at python', 0, 8000),
    'reasoner-2': reasoner('coder', 'strong, writes and runs python', 0.75, 8000),
  };
  return startTestGateway({
    policy: createEstimatePolicy({ contract: loadContract('slots-1') }),
    config: {
      tools: {
        docs: { kind: 'local_search', folders: [folder], privacy: 'any' },
        ...(sandbox ? { python: { kind: 'sandbox' } } : {}),
      },
      slots: {
        'search-1': { role: 'search', tools: ['docs'], quality: 'documents of this project', latency_ms: 50 },
        ...(sandbox ? reasoners : {}),
        'answer-1': answer('strongest', 'strongest general model', 5, 20_000),
        'answer-2': answer('first', 'good general model', first, 4000),
        'answer-3': answer('second', 'good general model', second, 4000),
        'answer-9': answer('tiny', 'very small local model: greetings, short rewrites', 0, 3000),
      },
    },
  });
}

async function start(prices?: number[]): Promise<TestGateway> {
  const gateway = await build(prices ? { prices } : {});
  open.push(gateway);
  return gateway;
}

const choiceFor = ({ client }: TestGateway, question: string, optimize = 'balanced') =>
  decide(client, { model: `orchestra:${optimize}`, messages: user(question) });

test.each([
  ['cheap', 'answer-9'],
  ['balanced', 'answer-2'],
  ['fast', 'answer-2'],
  ['best', 'answer-1'],
])('a greeting is answered at once by %s: %s', async (profile, slot) => {
  const { role, slot: chosen } = await choiceFor(calculating, 'Hello!', profile);
  expect([role, chosen]).toEqual(['answer', slot]);
});

test.each(['cheap', 'balanced', 'fast', 'best'])(
  'a question about the documents searches first under %s',
  async (profile) => {
    const { slot } = await choiceFor(await start(), 'How do I set a budget for one request in this project?', profile);
    expect(slot).toBe('search-1');
  },
);

test('documents that are there are not searched again', async () => {
  const { client, openAi } = await start();
  const body = {
    model: 'orchestra',
    messages: user('How do I set a budget for one request in this project?'),
    preferences: { explain: 'summary' },
  };
  const reply = await client.post('/chat/completions', { body });
  expect(reply).toMatchObject({
    x_orchestra: { turns: [{ slot: 'search-1', outcome: 'documents: 1' }, { role: 'answer' }] },
  });
  expect(JSON.stringify(openAi.requests[0]?.body)).toContain('max_cost_usd');
});

test.each(['best', 'balanced'])('arithmetic is calculated by whoever is good at it under %s', async (profile) => {
  const found = await choiceFor(calculating, 'What is 1234 * 5678?', profile);
  expect([found.role, found.slot]).toEqual(['enhance_reasoning', 'reasoner-2']);
});

test('arithmetic without a sandbox is answered', async () => {
  const { role } = await choiceFor(await start(), 'What is 1234 * 5678?');
  expect(role).toBe('answer');
});

test('a swap of two prices swaps the choice', async () => {
  const question = 'Explain why the sky is blue.';
  const before = await choiceFor(await start([0.75, 1]), question);
  const after = await choiceFor(await start([1, 0.75]), question);
  expect([before.slot, after.slot]).toEqual(['answer-2', 'answer-3']);
  const chance = ({ candidates }: typeof before, id: string) => candidates.find(({ slot }) => slot === id)?.probability;
  expect(chance(after, 'answer-3')).toBeCloseTo(chance(before, 'answer-2') ?? Number.NaN, 10);
  expect(chance(after, 'answer-2')).toBeCloseTo(chance(before, 'answer-3') ?? Number.NaN, 10);
});

test('more weight on cost never makes a dearer answer more probable', async () => {
  const { client } = await start();
  const chances: number[] = [];
  for (const cost of [0, 0.25, 0.5, 0.75, 1]) {
    const preferences = { weights: { quality: 0.5, cost, latency: 0 }, tools: { allow: ['answer-1', 'answer-9'] } };
    const { candidates } = await decide(client, { model: 'orchestra', messages: user('Hello!'), preferences });
    chances.push(candidates.find(({ slot }) => slot === 'answer-1')?.probability ?? Number.NaN);
  }
  expect(chances).toEqual([...chances].sort((left, right) => right - left));
  expect(chances[0]).toBeGreaterThan(0.9);
  expect(chances.at(-1)).toBeLessThan(0.1);
});
