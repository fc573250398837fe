import type { Usage } from '../cost/usage.ts';
import type { ChatDelta } from './chat.ts';
import { failureInAnswer, failureOf } from './failure.ts';
import { finishReasonFrom } from './openai-chunk.ts';
import { type AnswerReader, spoken } from './read-answer.ts';
import { type OutputItem, readEvent, type WireResponse } from './responses-event.ts';
import { createToolCallDeltas, type WireToolCallPiece } from './tool-call-deltas.ts';
import { createTextJoiner } from './well-formed.ts';
import { usageFromResponses } from './wire-usage.ts';

export function createResponsesAnswer(): AnswerReader {
  const text = createTextJoiner();
  const reasoning = createTextJoiner();
  const calls = createToolCallDeltas();
  /** Output items whose content came in deltas. */
  const streamed = new Set<number>();
  let finishWord: string | undefined;
  let usage: Usage | undefined;

  /** Some servers send an item only when it is whole. */
  function wholeItem(index: number, item: OutputItem | undefined): ChatDelta[] {
    if (!item || streamed.has(index)) return [];
    streamed.add(index);
    if (item.type === 'function_call') return calls.push(callPiece(index, item, item.arguments));
    const said = item.content.map((part) => part.text ?? part.refusal ?? '').join('');
    return spoken('text', text.push(said));
  }

  function finish(word: string, response: WireResponse): ChatDelta[] {
    usage = usageFromResponses(response.usage) ?? usage;
    if (word === 'response.failed') throw failureInAnswer(response.error, usage);
    finishWord = word === 'response.incomplete' ? incompleteBecause(response) : 'stop';
    return response.output.flatMap((item, index) => wholeItem(index, item));
  }

  return {
    get finished() {
      return finishWord !== undefined;
    },
    get ended() {
      return finishWord !== undefined;
    },
    get usage() {
      return usage;
    },
    read(data) {
      if (data.startsWith('[DONE]')) return [];
      const event = readEvent(data);
      switch (event?.type) {
        case undefined:
          throw failureOf('malformed', usage);
        case 'error':
          throw failureInAnswer(event, usage);
        case 'response.output_text.delta':
        case 'response.refusal.delta':
          streamed.add(event.output_index);
          return spoken('text', text.push(event.delta));
        case 'response.reasoning_summary_text.delta':
        case 'response.reasoning_text.delta':
          return spoken('reasoning', reasoning.push(event.delta));
        case 'response.output_item.added':
          return event.item.type === 'function_call' ? calls.push(callPiece(event.output_index, event.item)) : [];
        case 'response.function_call_arguments.delta':
          streamed.add(event.output_index);
          return calls.push({ index: event.output_index, function: { arguments: event.delta } });
        case 'response.output_item.done':
          return wholeItem(event.output_index, event.item);
        case 'response.completed':
        case 'response.incomplete':
        case 'response.failed':
          return finish(event.type, event.response);
        default:
          return [];
      }
    },
    close() {
      if (finishWord === undefined) throw failureOf('cut_stream', usage);
      return {
        rest: [...spoken('reasoning', reasoning.flush()), ...spoken('text', text.flush()), ...calls.close()],
        end: { type: 'end', finishReason: finishReasonFrom(finishWord, calls), usage },
      };
    },
  };
}

const incompleteBecause = ({ incomplete_details }: WireResponse): string =>
  incomplete_details?.reason === 'content_filter' ? 'content_filter' : 'length';

function callPiece(index: number, item: OutputItem & { type: 'function_call' }, args?: string): WireToolCallPiece {
  return { index, id: item.call_id ?? item.id, function: { name: item.name, arguments: args } };
}
