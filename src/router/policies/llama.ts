import { choiceSegments, renderPrompt, thoughtSegments } from '../../contract/render.ts';
import type { Contract } from '../../contract/schema.ts';
import { usageOf } from '../../cost/usage.ts';
import type { InferenceEngine } from '../../inference/engine.ts';
import type { Policy, PolicyOpinion } from '../policy.ts';
import { inWindow, turnPrompt } from './turn-prompt.ts';

export interface LlamaPolicyOptions {
  readonly name: string;
  readonly engine: InferenceEngine;
  readonly contract: Contract;
  /** Most tokens of free thought before a choice; 0 for policies that were trained without. */
  readonly thoughtTokens: number;
}

/**
 * A GGUF decides: the turn is rendered exactly as in training, and every admissible call is scored along a trie of
 * token ids, so that π is the locally masked product (architecture decision 3) and a forbidden slot is impossible.
 */
export function createLlamaPolicy({ name, engine, contract, thoughtTokens }: LlamaPolicyOptions): Policy {
  const { contextTokens } = engine.info;
  return {
    name,
    backend: 'llama',
    contract: contract.name,
    bound: usageOf({ inputTokens: contextTokens, outputTokens: thoughtTokens, calls: 1 }),
    decide: async (input): Promise<PolicyOpinion> => {
      const thought = { budgetTokens: thoughtTokens, ...thoughtSegments(contract) };
      const { seed, privateTo, signal } = input;
      const inProgress = input.turn > 1;
      const choices = input.candidates.map(({ id, role }) => choiceSegments(role, id, contract));
      const scored = await inWindow((share) => {
        const prompt = renderPrompt(
          turnPrompt(input, contract, Math.floor((contextTokens - thoughtTokens) * share)),
          contract,
        );
        return engine.score({ prompt, choices, thought, seed, privateTo, inProgress, signal });
      });
      const { promptTokens, cachedTokens, outputTokens } = scored.usage;
      return {
        probabilities: scored.logProbabilities.map(Math.exp),
        weighted: false,
        ...(scored.thought === '' ? {} : { thought: scored.thought }),
        usage: usageOf({ inputTokens: promptTokens, cacheReadTokens: cachedTokens, outputTokens, calls: 1 }),
      };
    },
  };
}
