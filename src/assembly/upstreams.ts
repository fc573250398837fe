import { performance } from 'node:perf_hooks';
import { createAnthropicUpstream } from '../upstream/anthropic.ts';
import { type Breaker, createBreaker, withBreaker } from '../upstream/breaker.ts';
import type { ChatUpstream } from '../upstream/chat.ts';
import { dialectFor } from '../upstream/dialect.ts';
import { createDispatcher } from '../upstream/dispatcher.ts';
import { createOpenAiUpstream } from '../upstream/openai.ts';
import { createRelay, type Relay } from '../upstream/relay.ts';
import { createResponsesUpstream } from '../upstream/responses.ts';
import { withRetries } from '../upstream/retry.ts';
import type { Config, UpstreamConfig } from './config.ts';

/** How patient the gateway is with others; tests are less so. */
export interface Patience {
  readonly firstTokenTimeoutMs: number;
  readonly betweenTokensTimeoutMs: number;
  readonly answerTimeoutMs: number;
  readonly retryAttempts: number;
  readonly retryBaseDelayMs: number;
  /** Failures in a row after which an upstream rests; 5 by default. */
  readonly failuresToRest?: number;
}

export const defaultPatience: Patience = {
  firstTokenTimeoutMs: 120_000,
  betweenTokensTimeoutMs: 30_000,
  answerTimeoutMs: 600_000,
  retryAttempts: 3,
  retryBaseDelayMs: 500,
};

/** One configured upstream: its experts and its relay share a connection pool and a breaker. */
export interface ConnectedUpstream {
  readonly config: UpstreamConfig;
  readonly chat: ChatUpstream;
  /** Only of those that speak what clients speak. */
  readonly relay: Relay | undefined;
  readonly breaker: Breaker;
  readonly close: () => Promise<void>;
}

export function connectUpstreams(config: Config, patience: Patience): ReadonlyMap<string, ConnectedUpstream> {
  return new Map(Object.entries(config.upstreams).map(([name, upstream]) => [name, connect(name, upstream, patience)]));
}

const dialects = {
  openai: createOpenAiUpstream,
  responses: createResponsesUpstream,
  anthropic: createAnthropicUpstream,
} as const;

function connect(name: string, config: UpstreamConfig, patience: Patience): ConnectedUpstream {
  const dispatcher = createDispatcher();
  const rests = { failuresToOpen: patience.failuresToRest ?? 5, firstRestMs: 1_000, longestRestMs: 30_000 };
  const breaker = createBreaker({ ...rests, now: () => performance.now() });
  const dialect = dialectFor(config.base_url, config.replay_reasoning);
  const address = { name, baseUrl: config.base_url, apiKey: config.api_key, dispatcher, dialect };
  const retries = { attempts: patience.retryAttempts, baseDelayMs: patience.retryBaseDelayMs, maxDelayMs: 8_000 };
  return {
    config,
    breaker,
    chat: withBreaker(withRetries(dialects[config.kind](address), retries), breaker),
    relay: config.kind === 'openai' ? createRelay({ ...address, timeouts: patience, breaker }) : undefined,
    close: () => dispatcher.destroy(),
  };
}
