import type { EngineOptions, InferenceEngine } from './engine.ts';
import { EngineClient } from './engine-client.ts';
import { hostSettings } from './host-session.ts';
import { checkEngineOptions } from './validate.ts';

/**
 * Loads a GGUF in a process of its own. Rejects with EngineFailure: `unavailable` tells the operator what to do,
 * `invalid` names the option that makes no sense.
 */
export async function startEngine(options: EngineOptions): Promise<InferenceEngine> {
  checkEngineOptions(options);
  const client = new EngineClient(options, hostSettings());
  await client.start();
  return client;
}

/** One fewer than the cores: compute threads on a busy last core wait for each other and are far slower. */
export const threadsFor = (cores: number): number => Math.max(1, cores - 1);
