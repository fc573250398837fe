import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { usdToNano } from '../../src/cost/money.ts';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import type { OpenAiReply } from '../support/loopback/openai-replies.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { costOf, decide, recordOf, reportOf, sumOf } from './report.ts';

/** An unmodified client of OpenAI's, a gateway, and everything behind it on loopback. */
let gateway: TestGateway | undefined;
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
});
const start = async (options: TestGatewayOptions): Promise<TestGateway> => {
  gateway = await startTestGateway(options);
  return gateway;
};

/** What each model bills, in tokens; the prices stand in test/support/gateway.ts. */
const billed = {
  coder: { prompt_tokens: 131, completion_tokens: 37 },
  dear: {
    prompt_tokens: 1003,
    completion_tokens: 57,
    prompt_tokens_details: { cached_tokens: 200 },
    completion_tokens_details: { reasoning_tokens: 21 },
  },
};
const nanoPerToken = { coder: { input: 500, output: 1000 }, dear: { input: 1000, output: 4000 } };
const searchNano = 8_000_000;
const tenthsOfNanoPerMs = 83;

const openAi = ({ body }: { body: Record<string, unknown> }): OpenAiReply =>
  body['model'] === 'coder'
    ? { kind: 'completion', text: ['```python\nprint(6 * 7)\n```'], usage: billed.coder }
    : { kind: 'completion', text: ['It is ', '42.'], usage: billed.dear };

const script = [
  { role: 'search', slot: 'search-1' },
  { role: 'enhance_reasoning', slot: 'reasoner-1' },
  { role: 'answer', slot: 'answer-1' },
] as const;

const request = {
  model: 'orchestra',
  messages: [{ role: 'user' as const, content: 'What is six times seven, and who says so?' }],
  preferences: { explain: 'full' },
};

/** Independent of the code under test: tokens times price, and what the sandbox's time came to. */
function exactNano(sandboxMs: number): number {
  const tokens = (['coder', 'dear'] as const).reduce(
    (sum, model) =>
      sum +
      billed[model].prompt_tokens * nanoPerToken[model].input +
      billed[model].completion_tokens * nanoPerToken[model].output,
    0,
  );
  return searchNano + tokens + Math.ceil((Math.ceil(sandboxMs) * tenthsOfNanoPerMs) / 10);
}

const sandboxMsOf = (report: ReturnType<typeof reportOf>): number =>
  report.cost.by_tool.find(({ tool }) => tool === 'python')?.duration_ms ?? Number.NaN;

describe('one run with all three roles', () => {
  let whole: TestGateway;
  beforeAll(async () => {
    whole = await startTestGateway({ sandbox: true, script, openAi });
  });
  afterAll(() => whole.close());

  test('answers, explains every choice and costs exactly what was billed', async () => {
    const { client, tavily } = whole;
    const { data, response } = await client.chat.completions.create(request).withResponse();
    expect(data.choices[0]).toMatchObject({ message: { content: 'It is 42.' }, finish_reason: 'stop' });

    const report = reportOf(data);
    expect(report).toMatchObject({ status: 'completed', model: 'loopback/dear', warnings: [] });
    expect(report.turns.map(({ role, slot, outcome }) => [role, slot, outcome])).toEqual([
      ['search', 'search-1', 'documents: 1'],
      ['enhance_reasoning', 'reasoner-1', 'code ran'],
      ['answer', 'answer-1', 'answered'],
    ]);
    for (const { slot, probability, candidates = [] } of report.turns) {
      expect(candidates.length).toBeGreaterThan(1);
      expect(sumOf(candidates)).toBeCloseTo(1, 12);
      expect(candidates.find((candidate) => candidate.slot === slot)?.probability).toBe(probability);
    }

    const nano = exactNano(sandboxMsOf(report));
    expect(usdToNano(response.headers.get('x-orchestra-cost-usd') ?? '')).toBe(nano);
    expect(costOf(data)).toBe(nano / 1e9);
    expect(report.cost).toMatchObject({ total: nano / 1e9, estimated: false });
    expect(tavily.billed.credits).toBe(1);
  });

  test('streams the same, its cost and report on the last chunk', async () => {
    const { client } = whole;
    const options = { ...request, stream: true as const, stream_options: { include_usage: true } };
    const chunks = [];
    for await (const chunk of await client.chat.completions.create(options)) chunks.push(chunk);
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe('It is 42.');
    const last = chunks.at(-1) ?? {};
    const report = reportOf(last);
    expect(report.turns.map(({ role }) => role)).toEqual(['search', 'enhance_reasoning', 'answer']);
    for (const { candidates = [] } of report.turns) expect(sumOf(candidates)).toBeCloseTo(1, 12);
    expect(costOf(last)).toBe(exactNano(sandboxMsOf(report)) / 1e9);
  });

  test('shows the answering expert what search and sandbox found, fenced as untrusted', async () => {
    const { client, openAi: upstream } = whole;
    await client.chat.completions.create(request);
    const asked = JSON.stringify(upstream.requests.at(-1)?.body['messages']);
    expect(asked).toContain('About What is six times seven');
    expect(asked).toContain('print(6 * 7)');
    expect(asked).toContain('untrusted');
    expect(upstream.requests.at(-1)?.body).not.toHaveProperty('preferences');
  });
});

test('a run is found again under its id, with its turns and no texts', async () => {
  const { client } = await start({ script: [{ role: 'search' }, { role: 'answer', slot: 'answer-2' }] });
  const answer = await client.chat.completions.create(request);
  const { run_id } = reportOf(answer);
  const record = await recordOf(client, run_id);
  expect(record).toMatchObject({
    run_id,
    status: 'completed',
    model: 'loopback/cheap',
    kind: 'run',
    finish_reason: 'stop',
  });
  expect(record.cost.total).toBe(costOf(answer));
  expect(record.turns.map(({ role }) => role)).toEqual(['search', 'answer']);
  expect(JSON.stringify(record)).not.toMatch(/six times seven|Hello from loopback/);
});

test('an upstream that bills more than it was allowed is booked in full and flagged', async () => {
  const usage = { prompt_tokens: 10, completion_tokens: 1_000_000 };
  const { client } = await start({ openAi: () => ({ ...replies.says('Much.'), usage }) });
  const report = reportOf(await client.chat.completions.create({ ...request, max_tokens: 16 }));
  expect(report.cost.total).toBe((10 * 1000 + 1_000_000 * 4000) / 1e9);
  expect(report.warnings.map(({ code }) => code)).toEqual(['upstream_overrun']);
});

test('deciding calls nobody, spends nothing and leaves no run behind', async () => {
  const { client, openAi: upstream, tavily, ledger } = await start({ script });
  const decision = await decide(client, { model: 'orchestra', messages: request.messages });
  expect(decision).toMatchObject({ role: 'search', slot: 'search-1' });
  expect(decision.candidates.map(({ slot }) => slot)).toEqual(['search-1', 'answer-1', 'answer-2']);
  expect(sumOf(decision.candidates)).toBeCloseTo(1, 12);
  expect(decision.candidates.every(({ predicted }) => predicted.cost_usd !== null)).toBe(true);
  expect([upstream.requests.length, tavily.requests.length]).toEqual([0, 0]);
  const day = ledger.openBudget({ runId: 'x', keyName: 'anonymous', maxCost: undefined, maxCostPerDay: usdToNano(1) });
  expect(day.remaining()).toBe(usdToNano(1));
});
