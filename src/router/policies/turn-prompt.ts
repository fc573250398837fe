import { phrasePreference } from '../../contract/phrase.ts';
import type { PromptInput } from '../../contract/render.ts';
import type { Contract } from '../../contract/schema.ts';
import { deliverCard, slotCard } from '../../contract/slot-card.ts';
import { EngineFailure } from '../../inference/engine.ts';
import type { PolicyInput } from '../policy.ts';

/** Cuts count code points; scripts with more tokens a code point get a smaller share of the window, and lose old text. */
export const windowShares = [1, 0.5, 0.25] as const;

/** Tries with ever smaller shares until the prompt fits the model's window. */
export async function inWindow<Result>(attempt: (share: number) => Promise<Result>): Promise<Result> {
  for (const share of windowShares.slice(0, -1)) {
    try {
      return await attempt(share);
    } catch (error) {
      if (!(error instanceof EngineFailure) || error.kind !== 'context_full') throw error;
    }
  }
  return attempt(windowShares.at(-1) ?? 1);
}

/** What of a turn reaches a policy that reads. */
export function turnPrompt(input: PolicyInput, contract: Contract, contextTokens: number): PromptInput {
  const { problem, conversation, evidence, candidates, weights, instruction } = input;
  const choices = candidates.map(({ role, slot, delivers }) => ({
    role,
    card: delivers ? deliverCard(delivers, contract) : slotCard(slot, contract),
  }));
  const preference = phrasePreference(weights, instruction, contract);
  return { problem, conversation, evidence, choices, preference, contextTokens };
}
