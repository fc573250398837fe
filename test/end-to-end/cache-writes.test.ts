import { afterEach, describe, expect, test } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import { type AnthropicScript, startAnthropicServer } from '../support/loopback/anthropic-server.ts';
import { reportOf } from './report.ts';

/* What a prompt costs that is written to a cache, at an upstream that keeps it only where it is marked. */

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const part of open.splice(0).reverse()) await part.close();
});

const long = 'word '.repeat(4000);
const markedAs = (cache_control: object | undefined) => [
  {
    role: 'user' as const,
    content: [{ type: 'text' as const, text: long, ...(cache_control ? { cache_control } : {}) }],
  },
];

async function startWith(script: AnthropicScript) {
  const claude = await startAnthropicServer(script);
  open.push(claude);
  const gateway = await startTestGateway({
    config: {
      upstreams: { claude: { kind: 'anthropic', base_url: claude.url, api_key: 'sk-ant' } },
      tools: {},
      relay: [],
    },
    slots: {
      'answer-1': {
        role: 'answer',
        upstream: 'claude',
        model: 'm',
        quality: 'good',
        context: 200_000,
        max_output: 9000,
        price: { input: 3, output: 15, cache_read: '0.3', cache_write: '3.75' },
      },
    },
  });
  open.push(gateway);
  const ask = async (cache_control: object | undefined, max_cost_usd: number) => {
    const preferences = { explain: 'full', max_cost_usd };
    const body = { model: 'orchestra', messages: markedAs(cache_control), preferences };
    const answer = await gateway.client.chat.completions.create(body);
    return { usd: (answer.usage as unknown as { cost: number }).cost, report: reportOf(answer) };
  };
  return { claude, ask };
}

describe('a prompt that is written to a cache', () => {
  test.each<[string, object, object]>([
    ['for some minutes', { type: 'ephemeral' }, { short: 1, long: 0 }],
    ['for an hour', { type: 'ephemeral', ttl: '1h' }, { short: 0, long: 1 }],
  ])('%s stays under the limit, though every byte is billed as a write', async (_, mark, lifetimes) => {
    const { short, long: hour } = lifetimes as { short: number; long: number };
    const { ask, claude } = await startWith(({ body }) => {
      const bytes = Buffer.byteLength(JSON.stringify(body));
      const cache_creation = {
        ephemeral_5m_input_tokens: short * bytes,
        ephemeral_1h_input_tokens: hour * bytes,
      };
      const counts = { input_tokens: 0, output_tokens: Number(body['max_tokens']), cache_creation_input_tokens: bytes };
      return { kind: 'message', text: ['ok'], usage: { ...counts, cache_creation } };
    });
    const { usd, report } = await ask(mark, 0.2);
    expect(report).toMatchObject({ warnings: [] });
    expect(usd).toBeLessThanOrEqual(0.2);
    const { cacheWriteTokens, outputTokens } = claude.billed;
    expect(usd).toBeCloseTo((cacheWriteTokens * (hour ? 6 : 3.75) + outputTokens * 15) / 1e6, 9);
    expect(claude.requests[0]?.body['messages']).toMatchObject([{ content: [{ cache_control: mark }] }]);
  });

  test('leaves less for the answer than one that is not marked, and is expected to cost the same', async () => {
    const { ask, claude } = await startWith(() => ({ kind: 'message', text: ['ok'] }));
    const expected: number[] = [];
    for (const mark of [undefined, { type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }]) {
      const { report } = await ask(mark, 0.18);
      expected.push(report.turns[0]?.candidates?.[0]?.predicted.cost_usd ?? 0);
    }
    const [plain = 0, usual = 0, hour = 0] = claude.requests.map(({ body }) => Number(body['max_tokens']));
    // 20 kB at 0.75 and 3 USD a million more, in tokens of 15.
    expect(plain - usual).toBeGreaterThan(1000);
    expect(plain - usual).toBeLessThan(1200);
    expect(usual - hour).toBeGreaterThan(2900);
    const [first = 0, ...others] = expected;
    expect(first).toBeGreaterThan(0.01);
    for (const other of others) expect(other).toBeCloseTo(first, 3);
  });
});
