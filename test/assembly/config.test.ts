// biome-ignore-all lint/suspicious/noTemplateCurlyInString: this is how configuration names variables
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { ConfigError, parseConfig, readConfig } from '../../src/assembly/load-config.ts';
import type { Environment } from '../../src/assembly/settings.ts';

const folder = mkdtempSync(join(tmpdir(), 'orchestra-config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The lines that a person reads. */
function problemsOf(action: () => unknown): readonly string[] {
  try {
    action();
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n');
    throw error;
  }
  return [];
}
const linesOf = (value: unknown, environment: Environment = {}) => problemsOf(() => parseConfig(value, environment));

const upstream = { kind: 'openai', base_url: 'https://api.example.com/v1' };
const docs = { kind: 'local_search', folders: ['x'] };
const slot = { role: 'answer', upstream: 'cloud', model: 'm', quality: 'good', price: { input: 1, output: 2 } };
const withSlot = (part: object) => ({ upstreams: { cloud: upstream }, slots: { 'answer-1': { ...slot, ...part } } });

describe('one mistake is one line with path and way out', () => {
  test.each<[string, unknown, string]>([
    ['an unknown section', { serverr: {} }, 'serverr: unknown key: did you mean `server`?'],
    [
      'an unknown key of a section',
      { limits: { max_turn: 3 } },
      'limits.max_turn: unknown key: did you mean `max_turns`?',
    ],
    [
      'an unknown key of a slot',
      withSlot({ latencyms: 3 }),
      'slots.answer-1.latencyms: unknown key: did you mean `latency_ms`?',
    ],
    [
      'an unknown key of a price',
      withSlot({ price: { inptu: 1 } }),
      'slots.answer-1.price.inptu: unknown key: did you mean `input`?',
    ],
    [
      'an unknown key of a list entry',
      { server: { keys: [{ name: 'a', env: 'A', celing: {} }] } },
      'server.keys.0.celing: unknown key: did you mean `ceiling`?',
    ],
    [
      'an unknown key of a ceiling',
      { ceiling: { max_cost: 1 } },
      'ceiling.max_cost: unknown key: did you mean `max_cost_usd`?',
    ],
    ['text for a number', { server: { port: 'high' } }, 'server.port: Invalid input: expected number, received string'],
    ['text for a list', { relay: 'openai/*' }, 'relay: Invalid input: expected array, received string'],
    ['a list for everything', [1], 'configuration: Invalid input: expected object, received array'],
    [
      'a word that is none of the choices',
      { store: 'mysql' },
      'store: Invalid option: expected one of "sqlite"|"memory"',
    ],
    [
      'an unknown role',
      withSlot({ role: 'anwser' }),
      "slots.answer-1.role: Invalid discriminator value. Expected 'answer' | 'enhance_reasoning' | 'search'",
    ],
    [
      'a slot id that would tell a brand',
      { upstreams: { cloud: upstream }, slots: { GPT: slot } },
      'slots.GPT: is a role word and a number, such as `answer-1`: the policy sees it',
    ],
    [
      'a name with capitals',
      { upstreams: { Cloud: upstream } },
      'upstreams.Cloud: use lower-case letters, digits, `-` and `_`',
    ],
    ['a price in words', withSlot({ price: 'cheap' }), 'slots.answer-1.price: is a price for each unit, or `unknown`'],
    [
      'a part of a price in words',
      withSlot({ price: { input: 'cheap' } }),
      'slots.answer-1.price.input: write a decimal number of dollars with at most 9 digits behind the point',
    ],
    [
      'a price finer than can be counted',
      withSlot({ price: { input: '0.0000000001' } }),
      'slots.answer-1.price.input: write a decimal number of dollars with at most 9 digits behind the point',
    ],
    [
      'the same as a number',
      withSlot({ price: { output: 1e-12 } }),
      'slots.answer-1.price.output: write a decimal number of dollars with at most 9 digits behind the point',
    ],
    [
      'a policy of our own billed by the second',
      { policy: { backend: 'estimate', price: { per_second: '0.0005' } } },
      'policy.price.per_second: only a remote policy is billed by the second: leave it out',
    ],
    [
      'a search with a price of its own',
      {
        tools: { docs: { kind: 'local_search', folders: ['.'] } },
        slots: { 'search-1': { role: 'search', tools: ['docs'], quality: 'docs', price: { per_call: 0.01 } } },
      },
      'slots.search-1.price.per_call: a search is billed by its sources: write the price of each under `tools`',
    ],
    ...['input', 'output', 'cache_read', 'cache_write', 'cache_write_1h', 'reasoning'].map(
      (unit): [string, unknown, string] => [
        `a search whose tokens are priced (${unit}) where nobody counts them`,
        {
          tools: { docs: { kind: 'local_search', folders: ['.'] } },
          slots: { 'search-1': { role: 'search', tools: ['docs'], quality: 'docs', price: { [unit]: 1 } } },
        },
        `slots.search-1.price.${unit}: a search is billed for tokens by the slot of its \`writer\`: write the price there`,
      ],
    ),
    [
      'a search billed by the second of its own',
      {
        tools: { docs: { kind: 'local_search', folders: ['.'] } },
        slots: { 'search-1': { role: 'search', tools: ['docs'], quality: 'docs', price: { per_second: 0.01 } } },
      },
      'slots.search-1.price.per_second: a search is billed by its sources: write the price of each under `tools`',
    ],
    ...['input', 'output', 'cache_read', 'reasoning'].map((unit): [string, unknown, string] => [
      `a tool whose tokens are priced (${unit})`,
      {
        tools: {
          docs: { kind: 'local_search', folders: ['.'], price: { [unit]: 1, per_call: 0.01, per_second: 0.01 } },
        },
      },
      `tools.docs.price.${unit}: tools count no tokens: write \`per_call\` or \`per_second\` instead`,
    ]),
    [
      'an address that is none',
      { upstreams: { cloud: { ...upstream, base_url: 'api' } } },
      'upstreams.cloud.base_url: is an address such as `https://api.example.com/v1`',
    ],
    [
      'a star in the middle',
      { upstreams: { cloud: upstream }, relay: ['cloud/a*b'] },
      'relay.0: is UPSTREAM/MODEL, UPSTREAM/PREFIX* or UPSTREAM/*',
    ],
    [
      'a key with neither hash nor variable',
      { server: { keys: [{ name: 'a' }] } },
      'server.keys.0: needs either `sha256` or `env`',
    ],
    [
      'a hash that is none',
      { server: { keys: [{ name: 'a', sha256: 'zz' }] } },
      'server.keys.0.sha256: is 64 lower-case hex digits',
    ],
  ])('%s', (_, value, line) => {
    expect(linesOf(value)).toEqual([line]);
  });

  test.each<[string, unknown, string]>([
    [
      'an unknown upstream',
      withSlot({ upstream: 'clout' }),
      'slots.answer-1.upstream: no entry of `upstreams` is called `clout`: did you mean `cloud`?',
    ],
    [
      'an upstream where there is none',
      { slots: { 'answer-1': slot } },
      'slots.answer-1.upstream: no entry of `upstreams` is called `cloud`: known: none',
    ],
    [
      'a profile that builds on none',
      { profiles: { careful: { optimize: 'qualty' } } },
      'profiles.careful.optimize: no profile is called `qualty`: did you mean `quality`?',
    ],
    [
      'a default that is no profile',
      { defaults: { optimize: 'zzzzzzzzzzzz' }, profiles: { careful: {} } },
      'defaults.optimize: no profile is called `zzzzzzzzzzzz`: known: balanced, best, quality, cheap, cost, floor, fast, latency, nitro, private, local, careful',
    ],
    [
      'a denial in a ceiling that denies nothing',
      {
        ...withSlot({}),
        server: { keys: [{ name: 'a', sha256: '0'.repeat(64), ceiling: { tools: { deny: ['upstream:clout'] } } }] },
      },
      'server.keys.0.ceiling.tools.deny.0: `upstream:clout` matches no slot: did you mean `upstream:cloud`?',
    ],
    [
      'a liking for what is not there',
      { defaults: { weights: { tools: { 'tool:tavilyyyyyyyyyyyyyyy': 1 } } } },
      'defaults.weights.tools.tool:tavilyyyyyyyyyyyyyyy: `tool:tavilyyyyyyyyyyyyyyy` matches no slot: name a slot, role, model, upstream or tool of this file',
    ],
    [
      'an unknown local model',
      withSlot({ upstream: undefined, model: undefined, local: 'smol' }),
      'slots.answer-1.local: no entry of `models` is called `smol`: known: none',
    ],
    [
      'a slot without anybody behind it',
      withSlot({ upstream: undefined }),
      'slots.answer-1: needs `upstream` and `model`, or `local`',
    ],
    [
      'a slot with two behind it',
      withSlot({ local: 'smol' }),
      'slots.answer-1: has both `local` and `upstream`: keep one',
    ],
    [
      'an unknown search tool',
      { slots: { 'search-1': { role: 'search', tools: ['docs'], quality: 'x' } } },
      'slots.search-1.tools.0: no search tool is called `docs`: known: none',
    ],
    [
      'an unknown writer',
      {
        tools: { docs },
        slots: { 'search-1': { role: 'search', tools: ['docs'], writer: 'answer-1', quality: 'x' } },
      },
      'slots.search-1.writer: no answer slot is called `answer-1`: known: none',
    ],
    [
      'an unknown sandbox',
      withSlot({ role: 'enhance_reasoning', sandbox: 'python' }),
      'slots.answer-1.sandbox: no sandbox tool is called `python`: known: none',
    ],
    ['a relay to nobody', { relay: ['openai/*'] }, 'relay.0: no entry of `upstreams` is called `openai`: known: none'],
    [
      'a relay to local models that are none',
      { relay: ['local/*'] },
      'relay.0: no entry of `upstreams` is called `local`: known: none',
    ],
    [
      'an upstream with the name of our own models',
      { models: { smol: { path: 'smol.gguf' } }, upstreams: { local: upstream } },
      'upstreams.local: relays know the models that run here by this name: call the upstream something else',
    ],
    [
      'an embedding with the name of a model',
      { models: { smol: { path: 'smol.gguf' } }, embeddings: { smol: { path: 'e5.gguf' } } },
      'embeddings.smol: `models` has an entry of this name too: call one of them something else',
    ],
    [
      'documents embedded by nobody',
      { embeddings: { e5: { path: 'e5.gguf' } }, tools: { docs: { ...docs, embedding: 'e6' } } },
      'tools.docs.embedding: no entry of `embeddings` is called `e6`: did you mean `e5`?',
    ],
    [
      'a price that nobody knows',
      withSlot({ price: undefined }),
      'slots.answer-1.price: no price is known for cloud/m (genai-prices does not list it under this exact name): write `price`, or `price: unknown` to serve it with its cost reported as unknown',
    ],
    ['keys demanded and none given', { server: { auth: 'keys' } }, 'server.keys: `auth: keys` needs at least one key'],
    [
      'a key whose variable is not set',
      { server: { keys: [{ name: 'a', env: 'A_KEY' }] } },
      'server.keys.0.env: A_KEY is not set: set it to the secret of `a`',
    ],
    [
      'a contract for a policy that reads no prompt',
      { policy: { backend: 'estimate', contract: 'slots-2' } },
      'policy.contract: `estimate` reads no prompt: leave it out',
    ],
    [
      'weights for the bundled policy',
      { policy: { model: '/weights/mine.gguf' } },
      'policy.backend: `llama` is the one that takes weights of your own; the bundled one has its own',
    ],
    [
      'a bundled policy that nothing stands in for while it warms up',
      { policy: { fallback: 'none' } },
      'policy.fallback: the bundled policy warms up behind `estimate`; without it, write `backend: llama, model: card-reader`',
    ],
    [
      'a contract that asks a server for chances',
      {
        upstreams: { cloud: upstream },
        policy: { backend: 'remote', upstream: 'cloud', model: 'm', price: {}, contract: 'beliefs-1' },
      },
      'policy.contract: beliefs-1 needs chances, which servers do not show: use the llama backend',
    ],
    [
      'a llama policy without a model',
      { policy: { backend: 'llama' } },
      'policy.model: the llama backend needs one: an id of models/downloads.json or a path to a GGUF',
    ],
  ])('%s', (_, value, line) => {
    expect(linesOf(value)).toEqual([line]);
  });

  test.each<[string, unknown, RegExp]>([
    ['a key that resembles nothing', { trace: { qqqqqqqq: 1 } }, /^trace\.qqqqqqqq: unknown key: known here: .*days/],
    ['an unknown kind of tool', { tools: { web: { kind: 'bing' } } }, /^tools\.web\.kind: .*Expected 'tavily' \|/],
  ])('%s is told what there is', (_, value, line) => {
    expect(linesOf(value)).toEqual([expect.stringMatching(line)]);
  });

  test('an address that others can reach without a word about keys', () => {
    const [line, ...more] = linesOf({ server: { host: '0.0.0.0' } });
    expect(line).toMatch(/^server\.host: 0\.0\.0\.0 can be reached by others: set `server\.auth` to `keys`/);
    expect(more).toEqual([]);
    expect(linesOf({ server: { host: '0.0.0.0', auth: 'none' } })).toEqual([]);
  });

  test('a variable that is not set, once', () => {
    const tools = { web: { kind: 'tavily', api_key: '${WEB_KEY}', price: {} } };
    expect(linesOf({ tools })).toEqual(['tools.web.api_key: WEB_KEY is not set: set it, or write ${WEB_KEY:-default}']);
  });
});

describe('all mistakes are told at once', () => {
  test('of shape, anywhere in the file', () => {
    const lines = linesOf({
      servre: {},
      limits: { runs: 'many' },
      upstreams: { cloud: { ...upstream, api_key: '${CLOUD_KEY}' } },
      slots: { 'answer-1': { ...slot, latencyms: 1 }, 'answer-2': { role: 'answer' } },
    });
    expect(lines.map((line) => line.split(':')[0])).toEqual(
      expect.arrayContaining([
        'servre',
        'limits.runs',
        'upstreams.cloud.api_key',
        'slots.answer-1.latencyms',
        'slots.answer-2.quality',
      ]),
    );
  });

  test('of meaning: references, prices, keys and addresses', () => {
    const lines = linesOf({
      server: { host: '0.0.0.0', keys: [{ name: 'a', env: 'A_KEY' }] },
      upstreams: { cloud: upstream },
      slots: { 'answer-1': { ...slot, price: undefined }, 'answer-2': { ...slot, upstream: 'none' } },
      relay: ['gone/*'],
    });
    expect(lines.map((line) => line.split(':')[0]).sort()).toEqual([
      'relay.0',
      'server.host',
      'server.keys.0.env',
      'slots.answer-1.price',
      'slots.answer-2.upstream',
    ]);
  });
});

describe('values from the environment', () => {
  const keyOf = (api_key: string, environment: Environment) =>
    parseConfig({ upstreams: { cloud: { ...upstream, api_key } } }, environment).upstreams['cloud']?.api_key;

  test.each([
    ['a variable', '${A}', { A: 'sk-a' }, 'sk-a'],
    ['a default where it is not set', '${A:-none}', {}, 'none'],
    ['a default where it is empty', '${A:-none}', { A: '' }, 'none'],
    ['an empty default', '${A:-}', {}, ''],
    ['a variable inside text, twice', 'x-${A}-${A}', { A: '1' }, 'x-1-1'],
    ['no variable in what a variable says', '${A}', { A: '${B}', B: 'secret' }, '${B}'],
    ['a dollar without braces', '$A', { A: 'sk-a' }, '$A'],
  ])('%s', (_, text, environment, expected) => {
    expect(keyOf(text, environment)).toBe(expected);
  });
});

describe('a file', () => {
  const file = (text: string): string => {
    const path = join(folder, 'orchestra.yaml');
    writeFileSync(path, text);
    return path;
  };

  test('that is missing is named, with the way out', () => {
    const path = join(folder, 'missing.yaml');
    expect(problemsOf(() => readConfig(path, {}))).toEqual([
      `${path}: cannot be read (ENOENT): write one, or start without to use the defaults`,
    ]);
  });

  test.each([
    ['a broken line', 'upstreams:\n  cloud: { api_key: "sk-pasted-secret\n'],
    ['a doubled key', 'server: { port: 1 }\nserver: { port: 2 }\n'],
    ['a bad indentation', 'server:\n  port: 1\n host: x # sk-pasted-secret\n'],
  ])('with %s is told with its place in one line, and nothing of its text', (_, text) => {
    const path = file(text);
    const [line, ...more] = problemsOf(() => readConfig(path, {}));
    expect(line).toMatch(/is not YAML: .* at line \d+, column \d+/);
    expect(line?.startsWith(`${path}: `)).toBe(true);
    expect([line, ...more].join('\n')).not.toContain('sk-pasted-secret');
    expect(more).toEqual([]);
  });

  test('with aliases without end is refused', () => {
    const bomb = `a: &a [${'x,'.repeat(9)}x]\n${[...'bcdefgh'].map((name, i) => `${name}: &${name} [${`*${'abcdefg'[i]},`.repeat(9)}*${'abcdefg'[i]}]`).join('\n')}\n`;
    expect(problemsOf(() => readConfig(file(bomb), {}))[0]).toMatch(/is not YAML/);
  });

  test('that is empty is the defaults', () => {
    expect(readConfig(file('# nothing yet\n'), {})).toEqual(parseConfig({}, {}));
  });
});

test('no error repeats a secret from the environment', () => {
  const environment = { KEY: 'sk-very-secret' };
  const lines = linesOf(
    {
      upstreams: { cloud: { kind: '${KEY}', base_url: '${KEY}', api_key: '${KEY}', privacy: '${KEY}' } },
      slots: { 'answer-1': { ...slot, price: { input: '${KEY}' }, context: '${KEY}' } },
      store: '${KEY}',
    },
    environment,
  );
  expect(lines.length).toBeGreaterThan(4);
  expect(lines.join('\n')).not.toContain('sk-very-secret');
});

test('limits of the operator may name relayed models and upstreams, which are no slots', () => {
  const value = {
    ...withSlot({}),
    upstreams: { cloud: upstream, far: upstream },
    relay: ['far/*'],
    ceiling: { tools: { deny: ['upstream:far', 'model:far/small', 'far/*', 'model:cloud/m', 'answer-*'] } },
  };
  expect(linesOf(value)).toEqual([]);
  expect(linesOf({ ...value, relay: [] })).toHaveLength(2);
});
