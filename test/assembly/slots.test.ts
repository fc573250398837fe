import { describe, expect, test } from 'vitest';
import { defaultConfig } from '../../src/assembly/defaults.ts';
import { parseConfig } from '../../src/assembly/load-config.ts';
import { relayedUpstream } from '../../src/assembly/relays.ts';
import { slotsFrom } from '../../src/assembly/slots.ts';
import { createRelay } from '../../src/upstream/relay.ts';

const now = Date.parse('2026-11-30T00:00:00Z');

const cloud = { kind: 'openai', base_url: 'https://api.openai.com/v1', privacy: 'no_training', regions: ['us'] };
const expert = { quality: 'good', price: { input: 1 } };

describe('the class of a search slot', () => {
  const base = {
    upstreams: { cloud, house: { ...cloud, privacy: 'self_hosted' } },
    tools: {
      web: { kind: 'tavily', api_key: 'x', privacy: 'no_training', price: {} },
      docs: { kind: 'local_search', folders: ['docs'], privacy: 'any' },
    },
  };
  const classOf = (tools: readonly string[], writer?: string): string | undefined => {
    const config = parseConfig(
      {
        ...base,
        slots: {
          'answer-1': { role: 'answer', upstream: 'cloud', model: 'm', ...expert },
          'answer-2': { role: 'answer', upstream: 'house', model: 'm', ...expert },
          'search-1': { role: 'search', tools, quality: 'x', ...(writer ? { writer } : {}) },
        },
      },
      {},
    );
    return slotsFrom(config, [], now).slots.find(({ id }) => id === 'search-1')?.privacy;
  };

  test.each<[string, readonly string[], string | undefined, string]>([
    ['own documents stay inside, whatever their own class', ['docs'], undefined, 'local'],
    ['an engine outside promises what it promises', ['web'], undefined, 'no_training'],
    ['the strictest source stands, since a limit can take the others away', ['web', 'docs'], undefined, 'local'],
    ['a writer sees the request, so its class bounds it', ['docs'], 'answer-1', 'no_training'],
    ['the weaker of writer and source', ['web'], 'answer-2', 'no_training'],
    ['a writer of our own', ['docs'], 'answer-2', 'self_hosted'],
  ])('%s', (_, tools, writer, expected) => {
    expect(classOf(tools, writer)).toBe(expected);
  });
});

describe('facts of a slot', () => {
  const slotWith = (part: object, more: object = {}) => {
    const config = parseConfig(
      {
        upstreams: { cloud, unsaid: { kind: 'openai', base_url: 'https://api.example.com/v1' } },
        models: { smol: { path: 'smollm2-135m-instruct', context: 4096 } },
        slots: { 'answer-1': { role: 'answer', quality: 'x', ...part } },
        ...more,
      },
      {},
    );
    const [slot] = slotsFrom(config, [], now).slots;
    if (!slot) throw new Error('there is one slot');
    return slot;
  };

  test('come from the price catalog where the configuration says nothing', () => {
    const slot = slotWith({ upstream: 'cloud', model: 'gpt-5.4-mini' });
    expect(slot.contextTokens).toBeGreaterThan(100_000);
    expect(slot).toMatchObject({
      model: 'cloud/gpt-5.4-mini',
      privacy: 'no_training',
      regions: ['us'],
      upstream: 'cloud',
    });
    expect(slot.rates?.input).toBeGreaterThan(0n);
  });

  test('are modest where nobody knows', () => {
    const slot = slotWith({ upstream: 'unsaid', model: 'm', price: 'unknown' });
    expect(slot).toMatchObject({
      contextTokens: 8192,
      input: ['text'],
      clientTools: false,
      jsonSchema: false,
      privacy: 'any',
      rates: undefined,
    });
  });

  test('of a local model are its own', () => {
    const slot = slotWith({ local: 'smol' });
    expect(slot).toMatchObject({ model: 'local/smol', privacy: 'local', contextTokens: 4096, maxOutputTokens: 1024 });
    expect(slot.rates).toMatchObject({ input: 0n, output: 0n });
  });
});

describe('relays', () => {
  const upstreamOf = (relay: readonly string[], slots: object = {}) => {
    const config = parseConfig({ upstreams: { openai: cloud, other: cloud }, relay, slots }, {});
    const { openai } = config.upstreams;
    if (!openai) throw new Error('it is configured above');
    const timeouts = { firstTokenTimeoutMs: 1, betweenTokensTimeoutMs: 1, answerTimeoutMs: 1 };
    const client = createRelay({ name: 'openai', baseUrl: openai.base_url, apiKey: '', timeouts });
    return relayedUpstream('openai', openai, client, config, [], () => now);
  };

  test.each([
    ['openai/*', 'gpt-5.4-mini', true],
    ['openai/*', 'some/deep/name', true],
    ['openai/gpt-5*', 'gpt-5.5', true],
    ['openai/gpt-5*', 'o9', false],
    ['openai/gpt-5.5', 'gpt-5.5', true],
    ['openai/gpt-5.5', 'gpt-5.5-pro', false],
  ])('the pattern %s finds %s: %s', (pattern, model, found) => {
    expect(upstreamOf([pattern])?.find(model) !== undefined).toBe(found);
  });

  test('without a pattern there is none', () => {
    expect(upstreamOf(['other/*'])).toBeUndefined();
  });

  test('list exact names and slots, not what a star admits', () => {
    const slots = { 'answer-1': { role: 'answer', upstream: 'openai', model: 'gpt-5.4-mini', quality: 'x' } };
    const listed = upstreamOf(['openai/*', 'openai/gpt-5.5'], slots)?.listed.map(({ slot }) => slot.id);
    expect(listed).toEqual(['openai/gpt-5.4-mini', 'openai/gpt-5.5']);
  });

  test('keep the price that the operator wrote for the slot', () => {
    const slot = { role: 'answer', upstream: 'openai', model: 'gpt-5.5', quality: 'x' };
    const own = upstreamOf(['openai/*'], { 'answer-1': { ...slot, price: { input: 7 } } })?.find('gpt-5.5');
    expect(own?.slot.rates?.input).toBe(7_000_000_000n);
    const unknown = upstreamOf(['openai/*'], { 'answer-1': { ...slot, price: 'unknown' } })?.find('gpt-5.5');
    expect(unknown?.slot.rates).toBeUndefined();
    expect(upstreamOf(['openai/*'])?.find('gpt-5.5')?.slot.rates?.input).toBeGreaterThan(0n);
  });
});

describe('the configuration without a file', () => {
  test('has local slots, a small budget and nothing in the cloud', () => {
    const { config, disabled } = defaultConfig({});
    expect(Object.keys(config.slots)).toEqual(['search-1', 'reasoner-9', 'answer-9']);
    expect(config.upstreams).toEqual({});
    expect(config.relay).toEqual([]);
    expect(config.ceiling).toEqual({ max_cost_usd: 0.25, max_cost_usd_per_day: 5 });
    expect(disabled.map(({ variable }) => variable)).toEqual([
      'OPENAI_API_KEY',
      'ANTHROPIC_API_KEY',
      'GEMINI_API_KEY',
      'OPENROUTER_API_KEY',
      'TAVILY_API_KEY',
    ]);
  });

  test('switches on what a key is there for, at most five slots a role beside the local one', () => {
    const environment = {
      OPENAI_API_KEY: 'a',
      ANTHROPIC_API_KEY: 'b',
      GEMINI_API_KEY: 'c',
      OPENROUTER_API_KEY: 'd',
      TAVILY_API_KEY: 'e',
    };
    const { config, disabled } = defaultConfig(environment);
    expect(disabled).toEqual([]);
    const answers = Object.entries(config.slots).filter(([, { role }]) => role === 'answer');
    expect(answers).toHaveLength(6);
    expect(config.slots['search-1']).toMatchObject({ tools: ['docs', 'tavily'], writer: 'answer-5' });
    expect(config.relay).toEqual(['openai/*', 'gemini/*', 'openrouter/*']);
    expect(config.upstreams['openai']?.api_key).toBe('a');
  });

  test('demands the key of ORCHESTRA_API_KEY where it is set, under the same budget', () => {
    const { server } = defaultConfig({ ORCHESTRA_API_KEY: 'sk-mine' }).config;
    expect(server).toMatchObject({ auth: 'keys', keys: [{ name: 'default', env: 'ORCHESTRA_API_KEY' }] });
    expect(server.keys[0]?.ceiling).toEqual({ max_cost_usd: 0.25, max_cost_usd_per_day: 5 });
    expect(JSON.stringify(server)).not.toContain('sk-mine');
  });
});
