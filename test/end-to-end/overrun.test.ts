import { afterEach, expect, test } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiScript, startOpenAiServer } from '../support/loopback/openai-server.ts';
import { costOf, reportOf } from './report.ts';

/* An upstream that bills more than it was allowed to is paid, told on, and left alone for a while. */

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const part of open.splice(0).reverse()) await part.close();
});

const excess = { prompt_tokens: 900_000, completion_tokens: 90_000 };
const overruns: OpenAiScript = () => ({ ...replies.says('Dear.'), usage: excess });

interface Setup {
  readonly greedy?: OpenAiScript;
  /** Of the greedy upstream. */
  readonly model?: string;
  readonly policy?: object;
}

async function startWith({ greedy = overruns, model = 'm', ...config }: Setup = {}) {
  const [dear, honest] = [await startOpenAiServer(greedy), await startOpenAiServer(() => replies.says('Honest.'))];
  open.push(dear, honest);
  const answer = { role: 'answer', quality: 'good', max_output: 100, price: { input: 1, output: 2 }, model: 'm' };
  const gateway = await startTestGateway({
    ...(config.policy ? { decidedBy: 'configuration' as const } : {}),
    config: {
      upstreams: {
        greedy: { kind: 'openai', base_url: dear.url },
        honest: { kind: 'openai', base_url: honest.url },
      },
      tools: {},
      relay: ['greedy/*', 'honest/*'],
      ...config,
    },
    slots: { 'answer-1': { ...answer, upstream: 'greedy', model }, 'answer-2': { ...answer, upstream: 'honest' } },
  });
  open.push(gateway);
  const ask = (model = 'orchestra') => {
    const body = { model, messages: [{ role: 'user' as const, content: 'Hi' }], max_tokens: 50 };
    return gateway.client.chat.completions.create({ ...body, ...{ preferences: { explain: 'full' } } });
  };
  return { dear, gateway, ask };
}

const overrunWarning = { code: 'upstream_overrun' };
const atRest = 'The upstream rests after billing more than it was allowed to.';

test('the next run avoids an upstream that billed too much, and the trace says why', async () => {
  const { dear, ask, gateway } = await startWith();
  const first = await ask();
  expect(costOf(first)).toBeCloseTo(0.9 + 0.18, 9);
  expect(reportOf(first).warnings).toMatchObject([overrunWarning]);
  const second = await ask();
  expect(second.choices[0]?.message.content).toBe('Honest.');
  expect(reportOf(second)).toMatchObject({
    warnings: [],
    turns: [
      { slot: 'answer-1', outcome: `failed: ${atRest}` },
      { slot: 'answer-2', outcome: 'answered', ruled_out: [{ slot: 'answer-1', reason: atRest }] },
    ],
  });
  expect(dear.requests).toHaveLength(1);
  const { data } = (await (await fetch(`${gateway.url}/v1/orchestra/slots`)).json()) as { data: object[] };
  expect(data).toMatchObject([
    { id: 'answer-1', health: 'unavailable' },
    { id: 'answer-2', health: 'available' },
  ]);
});

test.each([true, false])(
  'a relay that billed too much rests for relays and runs alike (stream: %s)',
  async (stream) => {
    const { dear, gateway, ask } = await startWith();
    const body = { model: 'greedy/m', messages: [{ role: 'user' as const, content: 'Hi' }], max_tokens: 50 };
    if (stream) for await (const _ of await gateway.client.chat.completions.create({ ...body, stream }));
    else await gateway.client.chat.completions.create(body);
    await expect(ask('greedy/m')).rejects.toMatchObject({ status: 502, message: expect.stringContaining(atRest) });
    expect(reportOf(await ask()).turns.map(({ slot }) => slot)).toEqual(['answer-1', 'answer-2']);
    expect(dear.requests).toHaveLength(1);
  },
);

test.each<[string, object]>([
  [
    'a picture',
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://x.example/y' } }] }] },
  ],
  ['a search by the upstream', { plugins: [{ id: 'web' }] }],
  ['a search by the name of the model', { model: 'm:online' }],
])('%s that weighs more than its words blames nobody, though what is written too much does', async (_, fields) => {
  let written = 50;
  const { model } = { model: 'm', ...fields };
  const { dear, gateway } = await startWith({
    greedy: () => ({ ...replies.says('Dear.'), usage: { ...excess, completion_tokens: written } }),
    model,
  });
  const ask = () =>
    gateway.client.chat.completions.create({
      ...{ messages: [{ role: 'user', content: 'Hi' }], max_tokens: 50 },
      ...fields,
      model: `greedy/${model}`,
    });
  for (const _ of [1, 2]) expect(reportOf(await ask()).warnings).toMatchObject([overrunWarning]);
  written = 51;
  await ask();
  await expect(ask()).rejects.toMatchObject({ status: 502 });
  expect(dear.requests).toHaveLength(3);
});

test('a policy that billed too much is not asked again for a while, and the fallback decides', async () => {
  const call = replies.calls({ id: 'c', name: 'answer', arguments: '{"model":"answer-2"}' });
  const price = { input: 1, output: 1 };
  const policy = { backend: 'remote', upstream: 'greedy', model: 'mind', price, context: 8192, thought: 100 };
  const { dear, ask } = await startWith({ greedy: () => ({ ...call, usage: excess }), policy });
  const first = reportOf(await ask());
  expect(first).toMatchObject({ warnings: [overrunWarning], turns: [{ slot: 'answer-2' }] });
  const second = reportOf(await ask());
  expect(second.warnings[0]?.message).toContain(atRest);
  expect(second.turns[0]?.decided_by).toBe('estimate');
  expect(dear.requests).toHaveLength(1);
});
