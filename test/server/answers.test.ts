import { afterEach, describe, expect, test } from 'vitest';
import { nanoUsd } from '../../src/cost/money.ts';
import { usageOf } from '../../src/cost/usage.ts';
import type { RunEvent } from '../../src/router/run.ts';
import { type BareServer, startServer } from '../support/bare-server.ts';
import { ask, askChat, type Chunk, chunksOf, contentOf, deltasOf } from '../support/http.ts';
import { type Script, says, scriptedOrchestrator } from '../support/scripted-orchestrator.ts';

let server: BareServer | undefined;
afterEach(async () => server?.close());

const start = async (script: Script = {}) => {
  server = await startServer({ orchestrator: scriptedOrchestrator(script) });
  return server;
};
const tools = [{ type: 'function', function: { name: 'city_temp' } }];

/** The same run asked whole and as a stream. */
async function bothWays(script: Script, fields: object = {}) {
  const gateway = await start(script);
  const whole = await askChat(gateway, fields);
  const streamed = await askChat(gateway, { ...fields, stream: true, stream_options: { include_usage: true } });
  const { choices, usage } = whole.json() as unknown as Whole; // Read by the assertions only.
  return { whole: choices[0], usage, chunks: chunksOf(streamed.text), text: streamed.text };
}

interface Whole {
  readonly choices: readonly { readonly message: Record<string, unknown>; readonly finish_reason: string }[];
  readonly usage: Record<string, unknown>;
}

const finishReasons = (chunks: readonly Chunk[]) =>
  chunks.flatMap(({ choices }) => choices.flatMap(({ finish_reason }) => finish_reason ?? []));

const toolDelta = (index: number, more: object, argumentsDelta = ''): RunEvent => ({
  type: 'answer-delta',
  delta: { type: 'tool_call', index, argumentsDelta, ...more },
});

describe('whole answers', () => {
  test('R01 to R03 and R06 have exactly the shape of OpenAI', async () => {
    const body = (await askChat(await start())).json();
    expect(body).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-\w{24,}$/),
      object: 'chat.completion',
      model: 'orchestra',
      system_fingerprint: expect.stringMatching(/./),
    });
    expect(Number.isInteger(body['created'])).toBe(true);
    expect(body['choices']).toEqual([
      {
        index: 0,
        message: { role: 'assistant', content: 'Hello there.', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ]);
  });

  test('R04 a call without arguments has "{}", and content is null beside calls', async () => {
    const events = [toolDelta(0, { id: 'call_1', name: 'city_temp' })];
    const { whole } = await bothWays({ events }, { tools });
    expect(whole?.message).toEqual({
      role: 'assistant',
      content: null,
      refusal: null,
      tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'city_temp', arguments: '{}' } }],
    });
  });

  test('R07 no key named error is in a success body', async () => {
    const { text } = await askChat(await start(), { preferences: { explain: 'full' } });
    expect(text).not.toMatch(/"error"\s*:/);
  });

  test('R08 an empty answer is "", not null', async () => {
    expect((await bothWays({ events: [] })).whole?.message['content']).toBe('');
  });
});

describe('streams', () => {
  test('S01 to S03, S05 to S08, S11 and S13 hold for a plain answer', async () => {
    const gateway = await start();
    const chunks = chunksOf((await askChat(gateway, { stream: true })).text);
    const [first] = chunks;
    for (const chunk of chunks) {
      const { id, created, model, system_fingerprint } = chunk;
      expect({ id, created, model, system_fingerprint, object: chunk.object }).toEqual({
        id: first?.id,
        created: first?.created,
        model: 'orchestra',
        system_fingerprint: 'fp_orchestra1',
        object: 'chat.completion.chunk',
      });
      expect(chunk.usage).toBeUndefined();
    }
    expect(chunks.map(({ choices }) => choices)).toEqual(
      [
        [{ role: 'assistant', content: '' }, null],
        [{ content: 'Hello' }, null],
        [{ content: ' there.' }, null],
        [{}, 'stop'],
      ].map(([delta, finish_reason]) => [{ index: 0, delta, logprobs: null, finish_reason }]),
    );
  });

  test('S04 the role is said once, also when reasoning comes first', async () => {
    const thought: RunEvent = { type: 'answer-delta', delta: { type: 'reasoning', text: 'hm' } };
    const { chunks, whole } = await bothWays({ events: [thought, ...says('yes')] });
    expect(deltasOf(chunks)).toEqual([
      { role: 'assistant', content: '' },
      { reasoning_content: 'hm' },
      { content: 'yes' },
      {},
    ]);
    expect(whole?.message).toMatchObject({ content: 'yes', reasoning_content: 'hm' });
  });

  test('S09 and S10 usage is one chunk without choices, and only if asked', async () => {
    const gateway = await start();
    const asked = chunksOf((await askChat(gateway, { stream: true, stream_options: { include_usage: true } })).text);
    expect(asked.filter(({ usage }) => usage)).toEqual([asked.at(-1)]);
    expect(asked.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 13 } });
    for (const stream_options of [null, {}, { include_usage: false }, { include_usage: null }]) {
      const chunks = chunksOf((await askChat(gateway, { stream: true, stream_options })).text);
      expect(chunks.every(({ choices }) => choices.length === 1)).toBe(true);
    }
  });

  test('S15 no chunk has a key named error', async () => {
    expect((await bothWays({})).text).not.toContain('"error"');
  });

  test('S16 a surrogate pair split over two deltas is sent in one piece, a lost half as U+FFFD', async () => {
    const halves = { events: says(`a${'😀'.slice(0, 1)}`, `${'😀'.slice(1)}b`, 'c\ud83d') };
    const { chunks, whole } = await bothWays(halves);
    expect(deltasOf(chunks).map(({ content }) => content)).toEqual(['', 'a', '😀b', 'c', '\ufffd', undefined]);
    expect(whole?.message['content']).toBe('a😀bc\ufffd');
  });

  test('S17 line separators of Unicode are escaped', async () => {
    const { chunks, text } = await bothWays({ events: says('a\u2028b\u2029c\u0085d') });
    expect(text).toContain('a\\u2028b\\u2029c\\u0085d');
    expect(text).not.toMatch(/[\u2028\u2029\u0085]/);
    expect(contentOf(chunks)).toBe('a\u2028b\u2029c\u0085d');
  });

  test.each<[string, Script, object]>([
    ['text', { events: says('Voilà', ' 用中文', ' 😀.') }, {}],
    ['a cut answer', { events: says('half'), record: { finishReason: 'length' } }, {}],
    ['nothing', { events: [] }, {}],
    ['text and calls', { events: [...says('wait'), toolDelta(0, { id: 'a', name: 'f' }, '{"x":1}')] }, { tools }],
  ])('S21 %s is the same streamed and whole', async (_, script, fields) => {
    const { whole, usage, chunks } = await bothWays(script, fields);
    expect(contentOf(chunks)).toBe(whole?.message['content'] ?? '');
    expect(finishReasons(chunks)).toEqual([whole?.finish_reason]);
    expect(chunks.at(-1)?.usage).toEqual(usage);
  });
});

describe('tool calls', () => {
  const two = [
    toolDelta(3, { id: 'call_a', name: 'city_temp' }, '{"city":'),
    toolDelta(3, {}, '"Oslo"}'),
    toolDelta(7, { id: 'call_b', name: 'city_temp' }),
    toolDelta(7, {}, '{}'),
  ];

  test('T01 to T04 and T08 id, type and name are said once, arguments stream, indices are dense', async () => {
    const { chunks } = await bothWays({ events: two }, { tools });
    const calls = deltasOf(chunks).flatMap(({ tool_calls }) => tool_calls ?? []);
    const opening = (index: number, id: string) => ({
      index,
      id,
      type: 'function',
      function: { name: 'city_temp', arguments: '' },
    });
    expect(calls).toEqual([
      opening(0, 'call_a'),
      { index: 0, function: { arguments: '{"city":' } },
      { index: 0, function: { arguments: '"Oslo"}' } },
      opening(1, 'call_b'),
      { index: 1, function: { arguments: '{}' } },
    ]);
    expect(finishReasons(chunks)).toEqual(['tool_calls']);
  });

  test('T05 an id that is missing, double, too long or not in the alphabet is replaced', async () => {
    const odd = ['', 'call_x', 'call_x', 'y'.repeat(41), 'näh'].map((id, index) => toolDelta(index, { id, name: 'f' }));
    const { whole } = await bothWays({ events: [...odd, toolDelta(9, { name: 'f' })] }, { tools });
    const calls = (whole?.message['tool_calls'] ?? []) as { id: string }[]; // Shape of T01.
    const ids = calls.map(({ id }) => id);
    expect(ids[1]).toBe('call_x');
    expect(new Set(ids).size).toBe(6);
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9_-]{1,40}$/);
  });

  test.each<[string, Script['record'], RunEvent[]]>([
    ['tool_calls', { finishReason: 'stop' }, two],
    ['length', { finishReason: 'length' }, two],
    ['stop', { finishReason: 'tool_calls' }, says('no call')],
    ['content_filter', { finishReason: 'content_filter' }, says('x')],
  ])('T06 the finish reason is %s in both modes', async (reason, record, events) => {
    const { whole, chunks } = await bothWays({ events, record: record ?? {} }, { tools });
    expect([whole?.finish_reason, ...finishReasons(chunks)]).toEqual([reason, reason]);
  });

  test('T07 text before the calls is kept', async () => {
    const { whole, chunks } = await bothWays({ events: [...says('Let me see.'), ...two] }, { tools });
    expect(whole?.message).toMatchObject({ content: 'Let me see.', tool_calls: [{ id: 'call_a' }, { id: 'call_b' }] });
    expect(contentOf(chunks)).toBe('Let me see.');
  });

  test('parallel_tool_calls false means one call', async () => {
    const { whole } = await bothWays({ events: two }, { tools, parallel_tool_calls: false });
    expect(whole?.message['tool_calls']).toHaveLength(1);
  });

  test('a client of old gets function_call', async () => {
    const { whole, chunks } = await bothWays({ events: two }, { functions: [{ name: 'city_temp' }] });
    expect(whole).toMatchObject({
      message: { content: null, function_call: { name: 'city_temp', arguments: '{"city":"Oslo"}' } },
      finish_reason: 'function_call',
    });
    expect(deltasOf(chunks).flatMap(({ function_call }) => function_call ?? [])).toEqual([
      { name: 'city_temp', arguments: '' },
      { arguments: '{"city":' },
      { arguments: '"Oslo"}' },
    ]);
  });
});

describe('usage and cost', () => {
  test('U01 and U02 counts are whole numbers that add up, details are there', async () => {
    const usage = { promptTokens: 31, completionTokens: 8, reasoningTokens: 3, cachedTokens: 16 };
    expect((await bothWays({ record: { usage } })).usage).toMatchObject({
      prompt_tokens: 31,
      completion_tokens: 8,
      total_tokens: 39,
      prompt_tokens_details: { cached_tokens: 16 },
      completion_tokens_details: { reasoning_tokens: 3 },
    });
  });

  test('the cost is one number with its parts, on headers too, and never a false 0', async () => {
    const line = (kind: 'policy' | 'model', cost: number) => ({
      label: kind,
      kind,
      meter: 'answer-1',
      usage: usageOf({ cacheReadTokens: 10 }),
      cost: nanoUsd(cost),
      estimated: false,
    });
    const record = { cost: nanoUsd(3_000), lines: [line('policy', 1_000), line('model', 2_000)] };
    const known = await askChat(await start({ record }));
    expect(known.headers['x-orchestra-cost-usd']).toBe('0.000003');
    expect(known.json()['usage']).toMatchObject({
      cost: 0.000003,
      cost_details: { orchestrator: 0.000001, tools: 0.000002, saved_by_cache: 0 },
    });
    await server?.close();
    const unknown = await askChat(await start({ record: { ...record, costKnown: false } }));
    expect(unknown.headers).not.toHaveProperty('x-orchestra-cost-usd');
    expect(unknown.json()['usage']).not.toHaveProperty('cost');
    expect(unknown.json()['x_orchestra']).toMatchObject({ cost: { total: null, known_part: 0.000003 } });
  });

  test('a key with a daily limit learns what is left', async () => {
    server = await startServer({ anonymousCeiling: { max_cost_usd_per_day: 2 } });
    expect((await askChat(server)).headers['x-orchestra-budget-remaining-usd']).toBe('2.00');
  });
});

describe('the report', () => {
  const reportOf = async (preferences: object, script: Script = {}) =>
    (await askChat(await start(script), { preferences })).json()['x_orchestra'] as Record<string, unknown>; // Checked below.

  test('has no turns by default, turns without candidates in summary, all in full', async () => {
    const none = await reportOf({});
    expect(none).toMatchObject({ version: 1, run_id: expect.stringMatching(/^run_/), status: 'completed' });
    expect(none).toMatchObject({ policy: { name: 'scripted' }, preferences: { optimize: 'balanced', privacy: 'any' } });
    expect(none).not.toHaveProperty('turns');
    await server?.close();
    const [summary] = (await reportOf({ explain: 'summary' }))['turns'] as object[];
    expect(summary).toMatchObject({ role: 'answer', predicted: { cost_usd: 0.001 }, actual: { cost_usd: 0.0015 } });
    expect(summary).not.toHaveProperty('candidates');
    await server?.close();
    const [full] = (await reportOf({ explain: 'full' }))['turns'] as object[];
    expect(full).toMatchObject({ candidates: [{ slot: 'answer-1', probability: 0.8, policy_probability: 0.7 }] });
  });

  test('is at most 32 KB inline and says when it was cut', async () => {
    const warnings = Array.from({ length: 500 }, (_, index) => ({ code: `w${index}`, message: 'x'.repeat(100) }));
    const report = await reportOf({ explain: 'full' }, { record: { warnings } });
    expect(report['truncated']).toBe(true);
    expect(JSON.stringify(report).length).toBeLessThan(32 * 1024);
    expect(report).toMatchObject({ run_id: expect.any(String), cost: { total: 0.0015 } });
  });

  test('of a stream is on the finish chunk, or on the usage chunk where one was asked for', async () => {
    const gateway = await start();
    const plain = chunksOf((await askChat(gateway, { stream: true })).text);
    expect(plain.filter(({ x_orchestra }) => x_orchestra)).toEqual([plain.at(-1)]);
    expect(plain.at(-1)?.choices[0]?.finish_reason).toBe('stop');
    const asked = chunksOf((await askChat(gateway, { stream: true, stream_options: { include_usage: true } })).text);
    expect(asked.filter(({ x_orchestra }) => x_orchestra)).toEqual([asked.at(-1)]);
    expect(asked.at(-1)).toMatchObject({ choices: [], usage: { cost: 0.0015 } });
  });

  const working: RunEvent[] = [
    { type: 'turn-start', turn: 1 },
    {
      type: 'decision-made',
      turn: 1,
      role: 'search',
      slot: 'search-1',
      model: 'loopback/small',
      probability: 0.75,
      candidates: [],
    },
    ...says('found'),
  ];

  test.each(['reasoning', 'reasoning_content'])('progress is told in %s alone, before the text', async (progress) => {
    const gateway = await start({ events: working });
    const deltas = deltasOf(chunksOf((await askChat(gateway, { stream: true, preferences: { progress } })).text));
    expect(deltas.slice(0, 3)).toEqual([
      { role: 'assistant', content: '' },
      { [progress]: 'Turn 1: search with loopback/small (search-1, p = 0.75)\n' },
      { content: 'found' },
    ]);
  });

  test('explain full streams events in whole chunks without choices', async () => {
    const gateway = await start({ events: working });
    const chunks = chunksOf((await askChat(gateway, { stream: true, preferences: { explain: 'full' } })).text);
    const asides = chunks.filter(({ choices }) => choices.length === 0);
    expect(asides.map(({ x_orchestra }) => x_orchestra)).toMatchObject([
      { version: 1, run_id: expect.any(String), event: { type: 'turn-start', turn: 1 } },
      { event: { type: 'decision-made', slot: 'search-1' } },
    ]);
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' });
  });

  test('strict mode drops every addition, by header and by option', async () => {
    const fields = { preferences: { explain: 'full', progress: 'reasoning' } };
    const thought: RunEvent = { type: 'answer-delta', delta: { type: 'reasoning', text: 'hm' } };
    const gateway = await start({ events: [...working.slice(0, 2), thought, ...says('x')] });
    const strict = { 'x-orchestra-strict': '1' };
    const replies = [
      await askChat(gateway, fields, strict),
      await askChat(gateway, { ...fields, stream: true, stream_options: { include_usage: true } }, strict),
    ];
    await gateway.close();
    server = await startServer({ strict: true });
    replies.push(await askChat(server, fields));
    for (const { text, headers } of replies) {
      expect(text).toMatch(/"total_tokens":13/);
      expect(text).not.toMatch(/orchestra_|x_orchestra|cost|reasoning"|reasoning_content|run_/);
      expect(Object.keys(headers).filter((name) => name.startsWith('x-orchestra'))).toEqual([]);
    }
  });

  test('the run endpoint knows nothing of runs that are not there', async () => {
    const reply = await ask(await start(), '/v1/orchestra/runs/run_x');
    expect(reply.status).toBe(404);
  });
});
