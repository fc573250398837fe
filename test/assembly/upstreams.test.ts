import { afterEach, describe, expect, test } from 'vitest';
import { defaultConfig } from '../../src/assembly/defaults.ts';
import { parseConfig } from '../../src/assembly/load-config.ts';
import { startTestGateway } from '../support/gateway.ts';
import { startAnthropicServer } from '../support/loopback/anthropic-server.ts';
import { startResponsesServer } from '../support/loopback/responses-server.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const part of open.splice(0).reverse()) await part.close();
});
function opened<Part extends { close(): Promise<void> }>(part: Part): Part {
  open.push(part);
  return part;
}

const answerBy = (upstream: string, part: object = {}) => ({
  role: 'answer',
  upstream,
  model: 'm',
  quality: 'good',
  price: { input: 3, output: 15, cache_read: '0.3', cache_write: '3.75' },
  ...part,
});

describe('an upstream of another kind', () => {
  test('that speaks Messages answers a run, billed to the nano-dollar', async () => {
    const usage = {
      input_tokens: 11,
      cache_read_input_tokens: 7,
      cache_creation_input_tokens: 5,
      output_tokens: 13,
    };
    const server = opened(await startAnthropicServer(() => ({ kind: 'message', text: ['Bon', 'jour'], usage })));
    const gateway = opened(
      await startTestGateway({
        config: {
          upstreams: { claude: { kind: 'anthropic', base_url: server.url, api_key: 'sk-ant' } },
          slots: { 'answer-1': answerBy('claude', { tools: true }) },
          tools: {},
          relay: [],
        },
      }),
    );
    const { choices, usage: told } = await gateway.client.chat.completions.create({
      model: 'orchestra',
      messages: [{ role: 'user', content: 'Greet me.' }],
    });
    expect(choices[0]?.message.content).toBe('Bonjour');
    expect(told).toMatchObject({ cost: (11 * 3_000 + 7 * 300 + 5 * 3_750 + 13 * 15_000) / 1e9 });
    expect(server.billed).toEqual({ inputTokens: 11, cacheReadTokens: 7, cacheWriteTokens: 5, outputTokens: 13 });
  });

  test('that speaks Responses answers a run, billed to the nano-dollar', async () => {
    const usage = {
      input_tokens: 18,
      output_tokens: 13,
      input_tokens_details: { cached_tokens: 7 },
      output_tokens_details: { reasoning_tokens: 4 },
    };
    const server = opened(await startResponsesServer(() => ({ kind: 'response', text: ['Bonjour'], usage })));
    const gateway = opened(
      await startTestGateway({
        config: {
          upstreams: { gpt: { kind: 'responses', base_url: server.url, api_key: 'sk-r' } },
          slots: { 'answer-1': answerBy('gpt') },
          tools: {},
          relay: [],
        },
      }),
    );
    const { choices, usage: told } = await gateway.client.chat.completions.create({
      model: 'orchestra',
      messages: [{ role: 'user', content: 'Greet me.' }],
    });
    expect(choices[0]?.message.content).toBe('Bonjour');
    expect(told).toMatchObject({ cost: (11 * 3_000 + 7 * 300 + 13 * 15_000) / 1e9 });
    expect(server.requests[0]?.body).toMatchObject({ store: false });
  });
});

describe('the configuration', () => {
  const upstreams = {
    claude: { kind: 'anthropic' },
    gpt: { kind: 'responses', base_url: 'https://api.openai.com/v1' },
  };

  test('knows the address of Anthropic, and of nobody else', () => {
    expect(parseConfig({ upstreams }, {}).upstreams['claude']?.base_url).toBe('https://api.anthropic.com');
    expect(() => parseConfig({ upstreams: { gpt: { kind: 'responses' } } }, {})).toThrow(
      'upstreams.gpt.base_url: is missing: the address of the server',
    );
  });

  test('relays only what speaks as clients do, and names the way out', () => {
    for (const name of ['claude', 'gpt']) {
      expect(() => parseConfig({ upstreams, relay: [`${name}/*`] }, {})).toThrow(
        /^relay\.0: `\w+` is of kind \w+, which is not relayed: make its models slots, or relay an upstream of kind openai$/,
      );
    }
  });

  test('promises no JSON schema that Anthropic would not hold to', () => {
    const slots = { 'answer-1': answerBy('claude', { json_schema: true }) };
    expect(() => parseConfig({ upstreams, slots }, {})).toThrow(/^slots\.answer-1\.json_schema: .*leave it out$/);
  });

  test('wants a policy on a server to have a server, a model and a price', () => {
    const linesOf = (policy: object) => {
      try {
        parseConfig({ upstreams, policy }, {});
        return [];
      } catch (error) {
        return error instanceof Error ? error.message.split('\n') : [];
      }
    };
    const remote = { backend: 'remote', upstream: 'gpt', model: 'm', price: { input: 0, output: 0 } };
    expect(linesOf(remote)).toEqual([]);
    expect(linesOf({ backend: 'remote', model: 'm' })).toEqual([
      'policy: the remote backend needs `upstream` and `model`',
    ]);
    expect(linesOf({ ...remote, upstream: 'gtp' })).toEqual([
      'policy.upstream: no entry of `upstreams` is called `gtp`: did you mean `gpt`?',
    ]);
    expect(linesOf({ backend: 'remote', upstream: 'gpt', model: 'm' })).toEqual([
      'policy.price: write what `gpt` charges; a machine of your own: { input: 0, output: 0 }',
    ]);
    expect(linesOf({ upstream: 'gpt' })).toEqual(['policy.upstream: only the remote backend has one: leave it out']);
  });

  test('without a file speaks Messages to Anthropic, and relays the others alone', () => {
    const { config } = defaultConfig({ ANTHROPIC_API_KEY: 'a', OPENAI_API_KEY: 'o' });
    expect(config.upstreams['anthropic']).toMatchObject({ kind: 'anthropic', base_url: 'https://api.anthropic.com' });
    expect(config.relay).toEqual(['openai/*']);
  });
});

test('a relayed model that is a slot too writes at most what the slot does, where money ends it', async () => {
  const gateway = opened(await startTestGateway());
  const messages = [{ role: 'user' as const, content: 'Hi' }];
  const preferences = { max_cost_usd: 1 };
  for (const model of ['loopback/cheap', 'loopback/other']) {
    const outcome = gateway.client.chat.completions.create({ ...{ preferences }, model, messages });
    // Nobody knows what the other costs, so no limit of money admits it.
    if (model === 'loopback/other') await expect(outcome).rejects.toThrow(/max_cost_usd/);
    else await outcome;
  }
  expect(gateway.openAi.requests.map(({ body }) => [body['model'], body['max_tokens']])).toEqual([['cheap', 2000]]);
});
