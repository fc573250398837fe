import type { ChatMessage } from '../contract/chat.ts';
import { noEvidence, type Observation } from '../contract/evidence.ts';
import { answerMessages } from '../contract/expert-messages.ts';
import type { Contract } from '../contract/schema.ts';
import type { Slot } from '../preferences/slot.ts';
import type { ChatDelta } from '../upstream/chat.ts';
import { formatVerdict } from './answer-format.ts';
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
  const expertBound = createExpertBound(slot, expert);
  const outputTokens = (input: ToolInput) => Math.min(input.maxOutputTokens, slot.maxOutputTokens);

  async function* execute(input: ToolInput): AsyncGenerator<ChatDelta, ToolOutcome> {
    const { messages, evidence, answerOptions: options, privateTo, callTime, signal } = input;
    const maxOutputTokens = outputTokens(input);
    const material = { messages, evidence, contextTokens: slot.contextTokens, maxOutputTokens };
    const sent = answerMessages(material, contract);
    const request = { messages: sent, maxOutputTokens, options, privateTo, callTime, signal };
    const { text, finishReason, usage, failure, schemaReason } = yield* callExpert(expert, request, slot);
    // One that was cut off or that calls a tool is not meant to be whole.
    const verdict = finishReason === 'stop' && text !== '' ? formatVerdict(text, options) : 'met';
    return {
      observation: failure ?? (verdict === 'broken' ? offFormat : { kind: 'answer', text }),
      usage: [usage],
      ...(finishReason === undefined ? {} : { finishReason }),
      missesFormat: verdict === 'missed',
      schemaReason,
      ownShare: evidence === noEvidence ? 1 : sizeOf(messages) / sizeOf(sent),
    };
  }
  return { slot, bound: (input) => [expertBound(input, outputTokens(input))], execute };
}

const offFormat: Observation = {
  kind: 'failed',
  reason: 'The answer is not what `response_format` asks for.',
  retryable: false,
};

const sizeOf = (messages: readonly ChatMessage[]): number => JSON.stringify(messages).length;
