import type { NanoUsd } from '../cost/money.ts';
import type { Tool, ToolInput } from '../tools/tool.ts';
import type { Candidate } from './policy.ts';

/** One choice of a turn with everything needed to act on it. */
export interface TurnOption extends Candidate {
  readonly tool: Tool;
  readonly input: ToolInput;
  /** What would have been asked for, had money been no object. */
  readonly wantedOutputTokens: number;
  /** Must stay free beside this call, so that an answer can still follow; 0 for answers. */
  readonly keepBack: NanoUsd;
}
