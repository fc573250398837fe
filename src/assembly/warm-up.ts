import { builtInProfiles } from '../preferences/profiles.ts';
import { mergePreferences } from '../preferences/request.ts';
import type { Policy } from '../router/policy.ts';
import type { Orchestrator } from '../router/run.ts';
import type { Config } from './config.ts';

export interface WarmUp {
  /** Never rejects. */
  readonly done: Promise<void>;
  /** Ends it, wherever it is. */
  stop(): Promise<void>;
}

/**
 * Has a local policy read what all first turns begin with (instructions, functions, cards), so that not the first caller
 * waits for it. A policy that is billed is left cold, for nobody has asked for this, and so is one that thinks: the first
 * caller would wait for its thought.
 */
export function warmUp(orchestrator: Orchestrator, policy: Policy, config: Config): WarmUp {
  const leaving = new AbortController();
  const isFree = config.policy.price === undefined && policy.bound.outputTokens === 0;
  const decided = isFree ? orchestrator.decide(firstQuestion(config, leaving.signal)) : undefined;
  // Whatever goes wrong here goes wrong again where somebody is told.
  const done = Promise.resolve(decided).then(
    () => undefined,
    () => undefined,
  );
  return {
    done,
    async stop() {
      leaving.abort();
      await done;
    },
  };
}

const firstQuestion = (config: Config, signal: AbortSignal): Parameters<Orchestrator['decide']>[0] => ({
  runId: 'warm-up',
  keyName: 'warm-up',
  requestedModel: 'orchestra',
  messages: [{ role: 'user', content: '?' }],
  needs: { input: ['text'], clientTools: false, jsonSchema: false, contextTokens: 0 },
  preferences: mergePreferences(
    [{ source: 'default', preferences: config.defaults }],
    { ...builtInProfiles, ...config.profiles },
    config.ceiling,
  ),
  maxAnswerTokens: undefined,
  answerOptions: {},
  streaming: false,
  seed: 0,
  signal,
});
