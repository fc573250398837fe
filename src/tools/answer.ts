import { answerMessages } from '../contract/expert-messages.ts';
import type { Contract } from '../contract/schema.ts';
import type { Slot } from '../preferences/slot.ts';
import type { ChatDelta } from '../upstream/chat.ts';
import type { Expert } from './expert.ts';
import { callExpert } from './expert-call.ts';
import { createExpertBound } from './input-bound.ts';
import type { Tool, ToolInput, ToolOutcome } from './tool.ts';

export interface AnswerToolOptions {
  readonly slot: Slot;
  readonly expert: Expert;
  readonly contract: Contract;
}

/** An expert answers the client, with what the run has learnt at the end of the last user message. */
export function createAnswerTool({ slot, expert, contract }: AnswerToolOptions): Tool {
  const expertBound = createExpertBound(slot.id, expert);
  const outputTokens = (input: ToolInput) => Math.min(input.maxOutputTokens, slot.maxOutputTokens);

  async function* execute(input: ToolInput): AsyncGenerator<ChatDelta, ToolOutcome> {
    const { messages, evidence, answerOptions: options, privateTo, signal } = input;
    const maxOutputTokens = outputTokens(input);
    const material = { messages, evidence, contextTokens: slot.contextTokens, maxOutputTokens };
    const request = { messages: answerMessages(material, contract), maxOutputTokens, options, privateTo, signal };
    const { text, finishReason, usage, failure } = yield* callExpert(expert, request, slot.id);
    return {
      observation: failure ?? { kind: 'answer', text },
      usage: [usage],
      ...(finishReason === undefined ? {} : { finishReason }),
    };
  }
  return { slot, bound: (input) => [expertBound(input, outputTokens(input))], execute };
}
