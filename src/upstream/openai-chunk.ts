import type { FinishReason } from './chat.ts';
import type { WireToolCallPiece } from './tool-call-deltas.ts';

/*
 * Read by hand, since this is what every token of every answer goes through, and openly: a field of the wrong type is an
 * absent field, since some upstream sends every wrong type there is.
 */

export interface OpenAiDelta {
  readonly content: string | undefined;
  readonly reasoning_content: string | undefined;
  readonly reasoning: string | undefined;
  readonly refusal: string | undefined;
  readonly tool_calls: readonly WireToolCallPiece[] | undefined;
}

interface OpenAiChoice {
  readonly index: number;
  readonly delta: OpenAiDelta | undefined;
  /** Instead of `delta` where an upstream ignores `stream: true`. */
  readonly message: OpenAiDelta | undefined;
  readonly finish_reason: string | undefined;
}

interface OpenAiChunk {
  readonly choices: readonly OpenAiChoice[];
  readonly usage: unknown;
  readonly error: unknown;
}

type Fields = Readonly<Record<string, unknown>>;

/** One `data` text as a chunk; undefined when it is not a JSON object. */
export function readChunk(data: string): OpenAiChunk | undefined {
  const wire = fieldsOf(parse(data));
  return wire && { choices: allOf(wire['choices'], choiceOf) ?? [], usage: wire['usage'], error: wire['error'] };
}

const choiceOf = (wire: Fields): OpenAiChoice => ({
  index: intOf(wire['index']) ?? 0,
  delta: deltaOf(fieldsOf(wire['delta'])),
  message: deltaOf(fieldsOf(wire['message'])),
  finish_reason: textOf(wire['finish_reason']),
});

const deltaOf = (wire: Fields | undefined): OpenAiDelta | undefined =>
  wire && {
    content: textOf(wire['content']),
    reasoning_content: textOf(wire['reasoning_content']),
    reasoning: textOf(wire['reasoning']),
    refusal: textOf(wire['refusal']),
    tool_calls: allOf(wire['tool_calls'], toolCallPieceOf),
  };

function toolCallPieceOf(wire: Fields): WireToolCallPiece {
  const index = intOf(wire['index']);
  const called = fieldsOf(wire['function']);
  return {
    index: index !== undefined && index >= 0 ? index : undefined,
    id: textOf(wire['id']),
    function: called && { name: textOf(called['name']), arguments: called['arguments'] },
  };
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
const intOf = (value: unknown): number | undefined => (Number.isSafeInteger(value) ? (value as number) : undefined);
const fieldsOf = (value: unknown): Fields | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;

/** A list in which anything is no object is no list. */
function allOf<T>(value: unknown, read: (wire: Fields) => T): T[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const items = value.map(fieldsOf);
  return items.every((item) => item !== undefined) ? items.map(read) : undefined;
}

/** Truthfulness over the upstream's word: calls without `tool_calls` and `tool_calls` without calls both occur. */
export function finishReasonFrom(
  word: string | undefined,
  calls: { readonly any: boolean; readonly truncated: boolean },
): FinishReason {
  if (word === 'length' || word === 'max_tokens') return 'length';
  if (word === 'content_filter') return 'content_filter';
  if (calls.truncated) return 'length';
  return calls.any ? 'tool_calls' : 'stop';
}
