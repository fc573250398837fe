import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { buildGateway, type Gateway, type GatewayOptions } from '../../src/assembly/gateway.ts';
import { parseConfig } from '../../src/assembly/load-config.ts';
import { createScriptedPolicy, type ScriptedChoice } from '../../src/router/policies/scripted.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from './loopback/openai-server.ts';
import { startTavilyServer, type TavilyScript, type TavilyServer } from './loopback/tavily-server.ts';

export interface TestGatewayOptions extends Partial<Omit<GatewayOptions, 'config'>> {
  /** `configuration`: by the policy that the configuration names, `estimate` where it names none. */
  readonly decidedBy?: 'script' | 'configuration';
  readonly script?: readonly ScriptedChoice[];
  readonly openAi?: OpenAiScript;
  readonly tavily?: TavilyScript;
  /** Adds the Python sandbox and `reasoner-1`; its self-test takes a second. */
  readonly sandbox?: boolean;
  /** Instead of the slots below. */
  readonly slots?: Readonly<Record<string, unknown>>;
  /** Laid over the configuration below, section by section. */
  readonly config?: Readonly<Record<string, unknown>>;
}

export interface TestGateway extends Gateway {
  readonly url: string;
  readonly client: OpenAI;
  readonly openAi: OpenAiServer;
  readonly tavily: TavilyServer;
}

/** Longer than a busy machine needs for a reply on loopback: no upstream that answers is given up. */
export const patience = {
  firstTokenTimeoutMs: 15_000,
  betweenTokensTimeoutMs: 15_000,
  answerTimeoutMs: 15_000,
  retryAttempts: 2,
  retryBaseDelayMs: 1,
};

/** For tests in which an upstream falls silent. */
export const impatience = {
  ...patience,
  firstTokenTimeoutMs: 1_000,
  betweenTokensTimeoutMs: 1_000,
  answerTimeoutMs: 2_000,
};

/**
 * A whole gateway on loopback: two answer slots, a web search and on demand a reasoner behind loopback servers, decided by a
 * script. One token in costs 1 USD a million at the dear slot, a tenth at the cheap one.
 */
export async function startTestGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const openAi = await startOpenAiServer(options.openAi);
  const tavily = await startTavilyServer(options.tavily);
  const home = mkdtempSync(join(tmpdir(), 'orchestra-test-'));
  const base = configFor(openAi.url, tavily.url, options.sandbox ?? false);
  const config = parseConfig(
    { ...base, slots: options.slots ?? base.slots, ...options.config },
    options.environment ?? {},
  );
  const gateway = await buildGateway({
    environment: {},
    home,
    modelsFolder: home,
    patience,
    embedding: false,
    ...(options.decidedBy === 'configuration'
      ? {}
      : { policy: createScriptedPolicy(options.script ?? [{ role: 'answer', slot: 'answer-1' }]) }),
    logger: false,
    ...options,
    config,
  });
  await gateway.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = gateway.app.server.address() as AddressInfo; // A TCP listener always has one.
  const url = `http://127.0.0.1:${port}`;
  return {
    ...gateway,
    url,
    client: new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 }),
    openAi,
    tavily,
    close: async () => {
      await gateway.close();
      await Promise.all([openAi.close(), tavily.close()]);
      rmSync(home, { recursive: true, force: true });
    },
  };
}

const configFor = (openAiUrl: string, tavilyUrl: string, sandbox: boolean) => ({
  store: 'memory',
  upstreams: {
    loopback: { kind: 'openai', base_url: openAiUrl, api_key: 'sk-loopback', privacy: 'self_hosted' },
  },
  tools: {
    web: {
      kind: 'tavily',
      api_key: 'tvly-loopback',
      base_url: tavilyUrl,
      privacy: 'self_hosted',
      price: { per_call: 0.008 },
    },
    ...(sandbox ? { python: { kind: 'sandbox', price: { per_second: '0.0000083' } } } : {}),
  },
  slots: {
    'search-1': { role: 'search', tools: ['web'], quality: 'the web', latency_ms: 100 },
    ...(sandbox ? { 'reasoner-1': reasoner } : {}),
    'answer-1': {
      role: 'answer',
      upstream: 'loopback',
      model: 'dear',
      quality: 'strongest general model',
      price: { input: 1, output: 4 },
      latency_ms: 200,
      max_output: 2000,
      tools: true,
      input: ['text', 'image'],
    },
    'answer-2': {
      role: 'answer',
      upstream: 'loopback',
      model: 'cheap',
      quality: 'small general model',
      price: { input: 0.1, output: 0.4 },
      latency_ms: 50,
      max_output: 2000,
    },
  },
  relay: ['loopback/*'],
});

const reasoner = {
  role: 'enhance_reasoning',
  upstream: 'loopback',
  model: 'coder',
  sandbox: 'python',
  quality: 'writes and runs python',
  price: { input: 0.5, output: 1 },
  latency_ms: 100,
};
