import { countCodePoints, keepTail } from './code-points.ts';
import type { SharedTexts } from './schema.ts';

/** A labelled or fenced piece of the prompt. A cut takes from the body only, so labels and fences are never lost. */
export interface Block {
  readonly open: string;
  readonly body: string;
  readonly close: string;
}

export const blockText = ({ open, body, close }: Block): string => open + body + close;

/** Keeps the newest blocks (they stand last); the first that does not fit keeps its tail, older ones go. */
export function keepNewest(blocks: readonly Block[], limit: number): string {
  let kept = '';
  let room = limit;
  for (const block of blocks.toReversed()) {
    const fitting = shorten(block, room);
    if (fitting === undefined) break;
    kept = blockText(fitting) + kept;
    if (fitting.body !== block.body) break;
    room -= countCodePoints(blockText(fitting));
  }
  return kept;
}

/** Cuts the body to its tail so that the whole block fits; undefined when not one code point of it would be left. */
export function shorten(block: Block, limit: number): Block | undefined {
  const room = limit - countCodePoints(block.open) - countCodePoints(block.close);
  const body = room > 0 ? keepTail(block.body, room) : '';
  if (room < 0 || (body === '' && block.body !== '')) return undefined;
  return { ...block, body };
}

export interface PromptBudgets {
  /** Code points of conversation, problem and evidence together. */
  readonly prompt: number;
  readonly problem: number;
  readonly conversation: number;
}

/** Budgets in code points, scaled down for a policy whose context is smaller than the one they were written for. */
export function promptBudgets(contextTokens: number, contract: SharedTexts): PromptBudgets {
  const { referenceContextTokens, codePointsPerToken, ...tokens } = contract.budgets;
  const context = Math.min(contextTokens, referenceContextTokens);
  const scaled = (budget: number): number =>
    Math.floor((budget * codePointsPerToken * context) / referenceContextTokens);
  return {
    prompt: scaled(tokens.promptTokens),
    problem: scaled(tokens.problemTokens),
    conversation: scaled(tokens.conversationTokens),
  };
}
