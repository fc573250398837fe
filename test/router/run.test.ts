import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { nanoUsd } from '../../src/cost/money.ts';
import { OrchestraError } from '../../src/errors.ts';
import { builtInProfiles } from '../../src/preferences/profiles.ts';
import { mergePreferences, type PreferenceLayer } from '../../src/preferences/request.ts';
import type { Ceiling, RequestedPreferences } from '../../src/preferences/schema.ts';
import { createScriptedPolicy, type ScriptedChoice } from '../../src/router/policies/scripted.ts';
import type { RunEvent, RunRecord, RunSpec } from '../../src/router/run.ts';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import { replies } from '../support/loopback/openai-replies.ts';

const open: TestGateway[] = [];
afterEach(async () => {
  for (const gateway of open.splice(0)) await gateway.close();
});
const start = async (options: TestGatewayOptions = {}): Promise<TestGateway> => {
  const gateway = await startTestGateway(options);
  open.push(gateway);
  return gateway;
};

let runs = 0;
const specFor = (preferences: RequestedPreferences = {}, part: Partial<RunSpec> = {}): RunSpec => ({
  runId: `run_${++runs}`,
  keyName: 'tester',
  requestedModel: 'orchestra',
  messages: [{ role: 'user', content: 'What is loopback?' }],
  needs: { input: ['text'], clientTools: false, jsonSchema: false, contextTokens: 5 },
  preferences: mergePreferences([{ source: 'body', preferences }], builtInProfiles, {}),
  maxAnswerTokens: undefined,
  answerOptions: {},
  streaming: true,
  seed: 1,
  signal: new AbortController().signal,
  ...part,
});

async function read(
  gateway: TestGateway,
  spec: RunSpec,
): Promise<{ events: RunEvent[]; text: string; record: RunRecord }> {
  const events: RunEvent[] = [];
  const run = gateway.orchestrator.run(spec);
  for (;;) {
    const step = await run.next();
    if (step.done) return { events, text: textOf(events), record: step.value };
    events.push(step.value);
  }
}
const textOf = (events: readonly RunEvent[]): string =>
  events
    .map((event) => (event.type === 'answer-delta' && event.delta.type === 'text' ? event.delta.text : ''))
    .join('');

async function refusal(action: Promise<unknown>): Promise<OrchestraError> {
  try {
    await action;
  } catch (error) {
    if (error instanceof OrchestraError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('a run', () => {
  test('searches, calculates and answers, and books each call under its own meter', async () => {
    const gateway = await start({
      sandbox: true,
      script: [{ role: 'search' }, { role: 'enhance_reasoning' }, { role: 'answer', slot: 'answer-2' }],
      openAi: ({ body }) =>
        body['model'] === 'coder' ? replies.says('```python\nprint(6 * 7)\n```') : replies.says('It is ', '42.'),
    });
    const { record, text } = await read(gateway, specFor());
    expect(text).toBe('It is 42.');
    expect(record.turns.map(({ role, slot, outcome }) => [role, slot, outcome])).toEqual([
      ['search', 'search-1', 'documents: 1'],
      ['enhance_reasoning', 'reasoner-1', 'code ran'],
      ['answer', 'answer-2', 'answered'],
    ]);
    expect(record).toMatchObject({ status: 'completed', model: 'loopback/cheap', costKnown: true, error: undefined });
    expect(record.lines.map(({ meter }) => meter).sort()).toEqual([
      'answer-2',
      'reasoner-1',
      'tool:python',
      'tool:web',
    ]);
    expect(record.cost).toBe(record.lines.reduce((sum, { cost }) => sum + (cost ?? 0), 0));
    expect(JSON.stringify(gateway.openAi.requests.at(-1)?.body)).toContain('About What is loopback?');
    expect(JSON.stringify(gateway.openAi.requests.at(-1)?.body)).toContain('print(6 * 7)');
  });

  test('withdraws the search once documents are there', async () => {
    const gateway = await start({ script: [{ role: 'search' }, { role: 'search' }] });
    const { record } = await read(gateway, specFor());
    expect(record.turns[1]?.candidates.map(({ role }) => role)).not.toContain('search');
    expect(record.turns[1]?.ruledOut).toContainEqual({ slot: 'search-1', reason: 'documents are there already' });
  });

  test('takes a failing slot as an observation and asks the next one in the same turn', async () => {
    const gateway = await start({
      openAi: ({ body }) => (body['model'] === 'dear' ? replies.serverError() : replies.says('From the cheap one.')),
    });
    const { record, text } = await read(gateway, specFor({ max_turns: 1 }));
    expect(text).toBe('From the cheap one.');
    expect(record.turns.map(({ turn, slot }) => [turn, slot])).toEqual([
      [1, 'answer-1'],
      [1, 'answer-2'],
    ]);
    expect(record.turns[0]?.outcome).toMatch(/^failed/);
  });

  test('gives up an unstreamed answer that broke off and tells only the whole one', async () => {
    const gateway = await start({
      openAi: ({ body }) =>
        body['model'] === 'dear'
          ? { kind: 'completion', text: ['half an ', 'answer'], cutAfterChunks: 2 }
          : replies.says('A whole answer.'),
    });
    const { record, text } = await read(gateway, specFor({ tools: { allow: ['answer'] } }, { streaming: false }));
    expect(text).toBe('A whole answer.');
    expect(record.lines.map(({ meter }) => meter)).toEqual(['answer-1', 'answer-2']);
  });

  test('ends with an error when a streamed answer breaks off', async () => {
    const gateway = await start({ openAi: () => ({ kind: 'completion', text: ['half', ' more'], cutAfterChunks: 2 }) });
    const { record, text } = await read(gateway, specFor());
    expect(text).toContain('half');
    expect(record).toMatchObject({ status: 'failed', error: { code: 'upstream_failed' } });
  });

  test('says who failed and how when nobody could answer', async () => {
    const gateway = await start({ openAi: () => replies.serverError() });
    const { record } = await read(gateway, specFor());
    expect(record.error).toMatchObject({ code: 'upstream_failed' });
    expect(record.error?.message).toContain('answer-1');
    expect(record.error?.message).toContain('answer-2');
    expect(JSON.stringify(record.error)).not.toContain('127.0.0.1');
  });

  test('passes a rate limit on when every slot is rate limited', async () => {
    const gateway = await start({ openAi: () => replies.rateLimited({ 'retry-after': '9' }) });
    const { record } = await read(gateway, specFor());
    expect(record.error).toMatchObject({ code: 'rate_limited', retryAfterMs: 9000 });
    expect(gateway.openAi.requests).toHaveLength(2);
  });
});

describe('limits of a run', () => {
  test('max_turns forces the answer and the record says so', async () => {
    const gateway = await start({ sandbox: true, script: [{ role: 'search' }, { role: 'enhance_reasoning' }] });
    const { record } = await read(gateway, specFor({ max_turns: 2 }));
    expect(record.turns.map(({ role }) => role)).toEqual(['search', 'answer']);
    expect(record.status).toBe('limited');
  });

  test('on_limit error ends the run instead of forcing an answer', async () => {
    const gateway = await start({ sandbox: true, script: [{ role: 'search' }] });
    const { record } = await read(gateway, specFor({ max_turns: 2, on_limit: 'error' }));
    expect(record.error).toMatchObject({ code: 'limits_unsatisfiable', param: 'preferences.max_turns' });
    expect(gateway.openAi.requests).toHaveLength(0);
  });

  const strict = { on_limit: 'error' } as const;
  const merged = (layer: PreferenceLayer, ceiling: Ceiling = {}) => ({
    preferences: mergePreferences([{ source: 'body', preferences: strict }, layer], builtInProfiles, ceiling),
  });
  const none: PreferenceLayer = { source: 'body', preferences: {} };
  const byDefault: PreferenceLayer = { source: 'default', preferences: { max_turns: 1 } };
  const byProfile: PreferenceLayer = { source: 'profile', preferences: { max_cost_usd: 0.008 } };
  const price = { input: 1, output: 1 };
  const slow = {
    'search-1': { role: 'search', tools: ['web'], quality: 'the web', latency_ms: 50_000 },
    'answer-1': { role: 'answer', upstream: 'loopback', model: 'dear', quality: 'good', price, latency_ms: 20_000 },
  };
  test.each<[string, Partial<RunSpec>, TestGatewayOptions['config'], string]>([
    ["the server's own limit", merged(none), { limits: { max_turns: 1 } }, '`limits.max_turns` of this server'],
    ["a default of the operator's", merged(byDefault), {}, "`max_turns` of the server's defaults"],
    ['a profile', merged(byProfile), {}, '`max_cost_usd` of the profile'],
    ["a key's ceiling", merged(none, { max_cost_usd: 0.008 }), {}, "`max_cost_usd` of this key's ceiling"],
    ["a key's day", merged(none, { max_cost_usd_per_day: 0.008 }), {}, "`max_cost_usd_per_day` of this key's ceiling"],
    [
      'a day that is tighter than the request',
      merged({ source: 'body', preferences: { max_cost_usd: 0.1 } }, { max_cost_usd_per_day: 0.008 }),
      {},
      "`max_cost_usd_per_day` of this key's ceiling",
    ],
    [
      "the client's own patience",
      { ...merged(none), patienceMs: 60_000 },
      { slots: slow },
      'The time that the client or the server',
    ],
  ])('an end that %s forces is not laid at the request', async (_, part, config, words) => {
    const gateway = await start({ script: [{ role: 'search' }, { role: 'search' }], config: config ?? {} });
    const { record } = await read(gateway, specFor({}, part));
    expect(record.error?.message.startsWith(`${words} `)).toBe(true);
    expect(record.error).not.toHaveProperty('param');
  });

  test("a request for which its key's ceiling admits no answer hears of the ceiling", async () => {
    const gateway = await start();
    const part = merged(none, { max_cost_usd: 0.00001 });
    const error = await refusal(read(gateway, specFor({}, part)));
    expect(error.message).toMatch(
      /^`max_cost_usd` of this key's ceiling is 0\.00001; the cheapest answer needs up to 0\./,
    );
    expect(error.param).toBeUndefined();
  });

  test('a budget leaves out what is not affordable beside the answer', async () => {
    const gateway = await start({ script: [{ role: 'search' }] });
    const { record } = await read(gateway, specFor({ max_cost_usd: 0.008 }));
    expect(record.turns[0]?.ruledOut).toContainEqual({
      slot: 'search-1',
      reason: 'not affordable beside the answer that must follow',
    });
    expect(record.cost).toBeLessThanOrEqual(8_000_000);
    expect(gateway.tavily.requests).toHaveLength(0);
  });

  const longPages = Array.from({ length: 5 }, (_, page) => ({
    title: `Page ${page}`,
    url: `https://example.org/${page}`,
    content: `page-${page} ${'word '.repeat(600)}`,
  }));

  test('a budget that a search left too small for all that it found still ends in an answer', async () => {
    const gateway = await start({
      script: [{ role: 'search' }],
      tavily: () => ({ kind: 'results', results: longPages }),
    });
    const { record, text } = await read(gateway, specFor({ max_cost_usd: 0.009 }));
    expect(text).toBe('Hello from loopback.');
    expect(record.turns.map(({ role }) => role)).toEqual(['search', 'answer']);
    expect(record.status).toBe('limited');
    expect(record.warnings.map(({ code }) => code)).toContain('evidence_too_dear');
    expect(record.cost).toBeLessThanOrEqual(9_000_000);
    // The best page stays longest.
    const asked = JSON.stringify(gateway.openAi.requests.at(-1)?.body);
    expect(asked).toContain('page-0');
    expect(asked).not.toContain('page-4');
    expect(record.sources.map(({ title }) => title)).not.toContain('Page 4');
  });

  test('with on_limit error it ends in one', async () => {
    const gateway = await start({
      script: [{ role: 'search' }],
      tavily: () => ({ kind: 'results', results: longPages }),
    });
    const { record } = await read(gateway, specFor({ max_cost_usd: 0.009, on_limit: 'error' }));
    expect(record.error).toMatchObject({ code: 'budget_exceeded', param: 'preferences.max_cost_usd' });
    expect(gateway.openAi.requests).toHaveLength(0);
  });

  test('what is left out for want of money leaves the run as confidential as it was', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'orchestra-docs-'));
    writeFileSync(join(folder, 'loopback.md'), `# What is loopback?\n\n${'Loopback is a secret word. '.repeat(60)}`);
    const gateway = await start({
      script: [{ role: 'search' }],
      config: {
        tools: {
          docs: { kind: 'local_search', folders: [folder], privacy: 'self_hosted', price: { per_call: 0.008 } },
        },
      },
      slots: {
        'search-1': { role: 'search', tools: ['docs'], quality: 'our documents' },
        'answer-1': {
          role: 'answer',
          upstream: 'loopback',
          model: 'cheap',
          quality: 'good',
          price: { input: 0.1, output: 0.4 },
        },
      },
    });
    const { record } = await read(gateway, specFor({ max_cost_usd: 0.00825 }));
    expect(record.turns.map(({ role }) => role)).toEqual(['search', 'answer']);
    expect(JSON.stringify(gateway.openAi.requests.at(-1)?.body)).not.toContain('secret');
    expect(record).toMatchObject({ error: undefined, sources: [], privacy: 'self_hosted' });
    rmSync(folder, { recursive: true });
  });

  test('a budget shortens the answer that it can pay for', async () => {
    const gateway = await start({
      openAi: ({ body }) => ({
        kind: 'completion',
        text: ['x'],
        finishReason: 'length',
        usage: { prompt_tokens: 10, completion_tokens: Number(body['max_tokens']) },
      }),
    });
    const { record } = await read(gateway, specFor({ max_cost_usd: 0.003, tools: { allow: ['answer-1'] } }));
    const asked = Number(gateway.openAi.requests[0]?.body['max_tokens']);
    expect(asked).toBeGreaterThanOrEqual(256);
    expect(asked).toBeLessThan(2000);
    expect(record.cost).toBeLessThanOrEqual(3_000_000);
    expect(record).toMatchObject({ status: 'limited', finishReason: 'length' });
    expect(record.warnings.map(({ code }) => code)).toContain('answer_capped');
  });

  test('a budget below the cheapest answer is refused before anything is spent', async () => {
    const gateway = await start();
    const error = await refusal(read(gateway, specFor({ max_cost_usd: 0.00001 })));
    expect(error).toMatchObject({ code: 'limits_unsatisfiable', param: 'preferences.max_cost_usd' });
    expect(error.message).toMatch(/needs up to 0\.000\d+/);
    expect(gateway.openAi.requests).toHaveLength(0);
  });

  test('a spent day is a spent budget', async () => {
    const gateway = await start();
    const preferences = mergePreferences([], builtInProfiles, { max_cost_usd_per_day: 1e-8 });
    const spec = specFor({}, { preferences });
    expect(await refusal(read(gateway, spec))).toMatchObject({ code: 'budget_exceeded' });
  });

  describe('of two that share a day', () => {
    const both = (gateway: TestGateway, dayUsd: number) => {
      const preferences = mergePreferences(
        [{ source: 'body', preferences: { tools: { allow: ['answer-1'] } } }],
        builtInProfiles,
        { max_cost_usd_per_day: dayUsd },
      );
      return Promise.all([1, 2].map(() => read(gateway, specFor({}, { preferences }))));
    };

    test('the second takes its turn again with what the first left', async () => {
      const gateway = await start();
      const [first, second] = await both(gateway, 0.012);
      expect([first?.text, second?.text]).toEqual(['Hello from loopback.', 'Hello from loopback.']);
      const asked = gateway.openAi.requests.map(({ body }) => Number(body['max_tokens']));
      expect(Math.min(...asked)).toBeGreaterThanOrEqual(256);
      expect(Math.min(...asked)).toBeLessThan(2000);
      expect([first, second].flatMap((run) => run?.record.turns.map(({ outcome }) => outcome)).sort()).toEqual([
        'answered',
        'answered',
        'not affordable',
      ]);
    });

    test('the second is told of the money when the first left none, and blames no upstream', async () => {
      const gateway = await start();
      const ended = await both(gateway, 0.0095);
      expect(ended.map(({ record }) => record.error?.code).sort()).toEqual(['budget_exceeded', undefined]);
      expect(gateway.openAi.requests).toHaveLength(1);
    });
  });

  test('limits that leave nobody name what removed whom', async () => {
    const gateway = await start();
    const error = await refusal(read(gateway, specFor({ privacy: 'local' })));
    expect(error).toMatchObject({ code: 'limits_unsatisfiable', param: 'preferences.privacy' });
    expect(error.message).toContain('privacy removed');
    expect(gateway.openAi.requests).toHaveLength(0);
  });

  test('the deadline ends a run that has said nothing', async () => {
    const gateway = await start({ openAi: () => ({ kind: 'completion', text: ['late'], firstChunkDelayMs: 5_000 }) });
    const { record } = await read(gateway, specFor({ max_latency_ms: 150 }));
    expect(record.error).toMatchObject({ code: 'deadline_exceeded' });
    await gateway.openAi.aborted(1);
  });

  test('the deadline lets stand what was streamed', async () => {
    const gateway = await start({
      openAi: () => ({ kind: 'completion', text: ['early', ' late'], hangAfterChunks: 2 }),
    });
    const { record, text } = await read(gateway, specFor({ max_latency_ms: 1_500 }));
    expect(text).toBe('early');
    expect(record).toMatchObject({ status: 'limited', finishReason: 'length', error: undefined });
    expect(record.lines[0]).toMatchObject({ meter: 'answer-1', estimated: true });
  });
});

describe('a client that leaves', () => {
  test('pays for what was written by its bytes, whatever the script', async () => {
    const gateway = await start({
      openAi: () => ({ kind: 'completion', text: ['早'.repeat(300), ' late'], hangAfterChunks: 2 }),
    });
    const leaving = new AbortController();
    const run = gateway.orchestrator.run(specFor({}, { signal: leaving.signal }));
    let step = await run.next();
    for (; !step.done; step = await run.next()) if (step.value.type === 'answer-delta') leaving.abort();
    expect(step.value).toMatchObject({
      status: 'cancelled',
      lines: [{ estimated: true, usage: { outputTokens: 300 } }],
    });
  });

  test('stops the upstream at once and leaves no hold behind', async () => {
    const gateway = await start({
      openAi: () => ({ kind: 'completion', text: Array(50).fill('word '), chunkDelayMs: 20 }),
    });
    const leaving = new AbortController();
    const run = gateway.orchestrator.run(specFor({}, { signal: leaving.signal }));
    for (let step = await run.next(); !step.done; step = await run.next()) {
      if (step.value.type === 'answer-delta') leaving.abort();
    }
    await gateway.openAi.aborted(1);
    const day = gateway.ledger.openBudget({
      runId: 'x',
      keyName: 'tester',
      maxCost: undefined,
      maxCostPerDay: nanoUsd(1e12),
    });
    expect(day.remaining()).toBeGreaterThan(0);
    expect(gateway.ledger.recover()).toBe(0);
  });

  test('owes nothing for a call that still waited for its turn', async () => {
    const slot = {
      role: 'answer',
      upstream: 'loopback',
      model: 'dear',
      quality: 'good',
      price: { input: 1, output: 4 },
    };
    const gateway = await start({
      slots: { 'answer-1': { ...slot, parallel: 1 } },
      openAi: () => ({ kind: 'completion', text: ['late'], firstChunkDelayMs: 5_000 }),
    });
    const staying = new AbortController();
    const first = read(gateway, specFor({}, { signal: staying.signal }));
    await expect.poll(() => gateway.openAi.requests.length).toBe(1);
    const leaving = new AbortController();
    const second = read(gateway, specFor({}, { signal: leaving.signal }));
    setTimeout(() => leaving.abort(), 50);
    expect((await second).record).toMatchObject({ status: 'cancelled', cost: 0, lines: [] });
    staying.abort();
    expect((await first).record).toMatchObject({ status: 'cancelled', lines: [{ estimated: true }] });
    expect(gateway.openAi.requests).toHaveLength(1);
  });

  test('by no longer reading is the same', async () => {
    const gateway = await start({
      openAi: () => ({ kind: 'completion', text: Array(50).fill('word '), chunkDelayMs: 20 }),
    });
    for await (const event of gateway.orchestrator.run(specFor())) if (event.type === 'answer-delta') break;
    await gateway.openAi.aborted(1);
    expect(gateway.ledger.recover()).toBe(0);
  });
});

describe('attempts', () => {
  const answers = ({ body }: { body: Record<string, unknown> }) =>
    replies.says(body['model'] === 'dear' ? 'I computed it: the answer is 42.' : 'It is 42.');
  const scripted = (...script: ScriptedChoice[]) => ({
    policy: createScriptedPolicy(script, 'slots-2'),
    openAi: answers,
  });

  test('are kept, compared and delivered without another call', async () => {
    const gateway = await start(
      scripted(
        { role: 'attempt', slot: 'answer-2' },
        { role: 'attempt', slot: 'answer-1' },
        { role: 'answer', slot: 'attempt-1' },
      ),
    );
    const { record, text } = await read(gateway, specFor());
    expect(text).toBe('It is 42.');
    expect(gateway.openAi.requests).toHaveLength(2);
    expect(record.turns.map(({ role, slot, outcome }) => [role, slot, outcome])).toEqual([
      ['attempt', 'answer-2', 'attempted'],
      ['attempt', 'answer-1', 'attempted'],
      ['answer', 'attempt-1', 'delivered'],
    ]);
    expect(record.turns[2]).toMatchObject({ cost: 0, model: 'loopback/cheap' });
    expect(record).toMatchObject({ model: 'loopback/cheap', status: 'completed', finishReason: 'stop' });
    expect(record.lines.map(({ meter }) => meter)).toEqual(['answer-2', 'answer-1']);
  });

  test('that agree are one choice', async () => {
    const gateway = await start(scripted({ role: 'attempt', slot: 'answer-2' }, { role: 'attempt', slot: 'answer-1' }));
    const { record } = await read(gateway, specFor());
    const offered = record.turns[2]?.candidates.map(({ slot }) => slot).filter((slot) => slot.startsWith('attempt-'));
    expect(offered).toEqual(['attempt-1']);
  });

  test('show the next expert what was tried', async () => {
    const gateway = await start(scripted({ role: 'attempt', slot: 'answer-2' }, { role: 'answer', slot: 'answer-1' }));
    await read(gateway, specFor());
    expect(JSON.stringify(gateway.openAi.requests[1]?.body)).toContain('It is 42.');
  });

  test('are not offered to policies that were trained without them, nor with client tools', async () => {
    const gateway = await start();
    const { record } = await read(gateway, specFor());
    expect(record.turns[0]?.candidates.map(({ role }) => role)).not.toContain('attempt');
    const other = await start(scripted());
    const needs = { input: ['text' as const], clientTools: true, jsonSchema: false, contextTokens: 5 };
    const { record: withTools } = await read(other, specFor({}, { needs }));
    expect(withTools.turns.flatMap(({ candidates }) => candidates).map(({ role }) => role)).not.toContain('attempt');
  });

  test('end at four, and the last turn only answers', async () => {
    const wish: ScriptedChoice = { role: 'attempt', slot: 'answer-2' };
    const gateway = await start(scripted(wish, wish, wish, wish, wish));
    const { record } = await read(gateway, specFor());
    expect(record.turns.filter(({ role }) => role === 'attempt')).toHaveLength(4);
    expect(record.turns.at(-1)?.role).toBe('answer');
    const { record: short } = await read(gateway, specFor({ max_turns: 2 }));
    expect(short.turns.map(({ role }) => role)).toEqual(['attempt', 'answer']);
    expect(short.status).toBe('limited');
  });

  test('need no money kept back once one can be delivered', async () => {
    const gateway = await start(scripted({ role: 'attempt', slot: 'answer-2' }));
    const { record } = await read(gateway, specFor({ max_cost_usd: 0.0018, tools: { allow: ['answer'] } }));
    expect(record.cost).toBeLessThanOrEqual(1_800_000);
    expect(record.error).toBeUndefined();
  });

  test('are charged even when another answer is given', async () => {
    const gateway = await start(scripted({ role: 'attempt', slot: 'answer-1' }, { role: 'answer', slot: 'answer-2' }));
    const { record } = await read(gateway, specFor());
    const { promptTokens, completionTokens } = gateway.openAi.billed;
    const billed = record.lines.reduce((sum, { usage }) => sum + usage.inputTokens + usage.outputTokens, 0);
    expect(billed).toBe(promptTokens + completionTokens);
  });
});
