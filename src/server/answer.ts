import type { ChatDelta, FinishReason } from '../upstream/chat.ts';
import { createTextJoiner, type TextJoiner } from '../upstream/well-formed.ts';
import type { WireToolCall } from './wire.ts';

/**
 * The answer as clients may see it, streamed or whole: pairs of surrogates joined, calls counted from 0 without gaps,
 * ids unique and in OpenAI's alphabet, id and name said once, arguments never empty. Both modes read it from here, so
 * that they cannot differ.
 */
export interface Answer {
  /** Takes what an expert wrote and returns what may go out now. */
  accept(delta: ChatDelta): ChatDelta[];
  /** What was held back. */
  finish(): ChatDelta[];
  readonly text: () => string;
  readonly reasoning: () => string;
  readonly toolCalls: () => WireToolCall[];
}

interface OpenCall {
  readonly index: number;
  readonly id: string;
  readonly name: string;
  readonly joiner: TextJoiner;
  args: string;
}

const acceptableId = /^[A-Za-z0-9_-]{1,40}$/;

export function createAnswer(options: { readonly oneToolCall: boolean; readonly newId: () => string }): Answer {
  const textJoiner = createTextJoiner();
  const reasoningJoiner = createTextJoiner();
  const calls = new Map<number, OpenCall>();
  let text = '';
  let reasoning = '';

  const say = (piece: string): ChatDelta[] => {
    text += piece;
    return piece === '' ? [] : [{ type: 'text', text: piece }];
  };
  const think = (piece: string): ChatDelta[] => {
    reasoning += piece;
    return piece === '' ? [] : [{ type: 'reasoning', text: piece }];
  };
  const argue = (call: OpenCall, piece: string): ChatDelta[] => {
    call.args += piece;
    return piece === '' ? [] : [{ type: 'tool_call', index: call.index, argumentsDelta: piece }];
  };
  const openCall = (index: number, id: string | undefined, name: string | undefined): OpenCall => {
    const taken = [...calls.values()].some((call) => call.id === id);
    const ownId = id !== undefined && acceptableId.test(id) && !taken ? id : `call_${options.newId().slice(0, 24)}`;
    const call = { index: calls.size, id: ownId, name: name ?? '', joiner: createTextJoiner(), args: '' };
    calls.set(index, call);
    return call;
  };

  return {
    accept: (delta) => {
      if (delta.type === 'text') return say(textJoiner.push(delta.text));
      if (delta.type === 'reasoning') return think(reasoningJoiner.push(delta.text));
      const known = calls.get(delta.index);
      if (!known && options.oneToolCall && calls.size > 0) return [];
      const call = known ?? openCall(delta.index, delta.id, delta.name);
      const { index, id, name } = call;
      const first: ChatDelta[] = known ? [] : [{ type: 'tool_call', index, id, name, argumentsDelta: '' }];
      return [...first, ...argue(call, call.joiner.push(delta.argumentsDelta))];
    },
    finish: () => [
      ...think(reasoningJoiner.flush()),
      ...say(textJoiner.flush()),
      ...[...calls.values()].flatMap((call) => [
        ...argue(call, call.joiner.flush()),
        ...(call.args === '' ? argue(call, '{}') : []),
      ]),
    ],
    text: () => text,
    reasoning: () => reasoning,
    toolCalls: () =>
      [...calls.values()].map(({ id, name, args }) => ({ id, type: 'function', function: { name, arguments: args } })),
  };
}

/** `tool_calls` exactly when there are calls and nothing cut them off. */
export function finishReasonOf(reported: FinishReason | undefined, calls: number): FinishReason {
  if (reported === 'length' || reported === 'content_filter') return reported;
  return calls > 0 ? 'tool_calls' : 'stop';
}
