import type { Usage } from '../cost/usage.ts';
import { type AnthropicBlock, type AnthropicDelta, readEvent } from './anthropic-event.ts';
import type { CacheMark } from './cache-marks.ts';
import type { ChatDelta, FinishReason } from './chat.ts';
import { failureInAnswer, failureOf } from './failure.ts';
import { type AnswerReader, spoken } from './read-answer.ts';
import { createToolCallDeltas } from './tool-call-deltas.ts';
import { createTextJoiner } from './well-formed.ts';
import { usageFromAnthropic } from './wire-usage.ts';

/**
 * @param mark what the request asked to be kept.
 * @param mostOutputTokens that the model was allowed.
 */
export function createAnthropicAnswer(mark: CacheMark, mostOutputTokens: number): AnswerReader {
  const text = createTextJoiner();
  const reasoning = createTextJoiner();
  const calls = createToolCallDeltas();
  const reports: unknown[] = [];
  let writtenBytes = 0;
  let stopReason: string | undefined;
  let ended = false;

  const estimated = () => (stopReason === undefined ? Math.min(mostOutputTokens, tokensIn(writtenBytes)) : 0);
  const usage = () => billed(usageFromAnthropic(reports, mark), estimated());

  function opened(index: number, block: AnthropicBlock): ChatDelta[] {
    if (block.type === 'tool_use') return calls.push({ index, id: block.id, function: { name: block.name } });
    if (block.type === 'thinking') return spoken('reasoning', reasoning.push(block.thinking));
    return spoken('text', text.push(block.text));
  }

  function continued(index: number, delta: AnthropicDelta): ChatDelta[] {
    if (delta.type === 'input_json_delta') return calls.push({ index, function: { arguments: delta.partial_json } });
    if (delta.type === 'thinking_delta') return spoken('reasoning', reasoning.push(delta.thinking));
    return spoken('text', text.push(delta.text));
  }

  function deltasOf(data: string): ChatDelta[] {
    const event = readEvent(data);
    switch (event?.type) {
      case undefined:
        throw failureOf('malformed', usage());
      case 'error':
        throw failureInAnswer(event, usage());
      case 'message_start':
        reports.push(event.message.usage);
        return [];
      case 'content_block_start':
        return opened(event.index, event.content_block);
      case 'content_block_delta':
        return continued(event.index, event.delta);
      case 'message_delta':
        reports.push(event.usage);
        stopReason = event.delta.stop_reason ?? stopReason;
        return [];
      case 'message_stop':
        ended = true;
        return [];
      default:
        return [];
    }
  }

  return {
    get finished() {
      return stopReason !== undefined;
    },
    get ended() {
      return ended;
    },
    get usage() {
      return usage();
    },
    read(data) {
      const deltas = deltasOf(data);
      writtenBytes += deltas.reduce((sum, delta) => sum + bytesOf(delta), 0);
      return deltas;
    },
    close() {
      if (stopReason === undefined && !ended) throw failureOf('cut_stream', usage());
      return {
        rest: [...spoken('reasoning', reasoning.flush()), ...spoken('text', text.flush()), ...calls.close()],
        end: { type: 'end', finishReason: finishReasonFrom(stopReason, calls), usage: usage() },
      };
    },
  };
}

/** Tokens are about four bytes of English and fewer of most else; counting three errs on the dear side. */
const tokensIn = (bytes: number): number => Math.ceil(bytes / 3);

/** Output is counted at the end only: of an answer that broke off, what was written is billed all the same. */
const billed = (usage: Usage | undefined, estimatedTokens: number): Usage | undefined =>
  usage && { ...usage, outputTokens: Math.max(usage.outputTokens, estimatedTokens) };

const bytesOf = (delta: ChatDelta): number =>
  Buffer.byteLength(delta.type === 'tool_call' ? `${delta.name ?? ''}${delta.argumentsDelta}` : delta.text);

function finishReasonFrom(
  word: string | undefined,
  calls: { readonly any: boolean; readonly truncated: boolean },
): FinishReason {
  if (word === 'max_tokens' || word === 'model_context_window_exceeded' || calls.truncated) return 'length';
  if (word === 'refusal') return 'content_filter';
  return calls.any ? 'tool_calls' : 'stop';
}
