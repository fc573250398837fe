import { z } from 'zod';
import type { FinishReason } from './chat.ts';

/** Read openly: a field of the wrong type is an absent field, since some upstream sends every wrong type there is. */
const optionalText = z.string().optional().catch(undefined);

const toolCallPiece = z.object({
  index: z.int().nonnegative().optional().catch(undefined),
  id: optionalText,
  function: z.object({ name: optionalText, arguments: z.unknown().optional() }).optional().catch(undefined),
});

const delta = z.object({
  content: optionalText,
  reasoning_content: optionalText,
  reasoning: optionalText,
  refusal: optionalText,
  tool_calls: z.array(toolCallPiece).optional().catch(undefined),
});

const choice = z.object({
  index: z.int().catch(0),
  delta: delta.optional().catch(undefined),
  /** Instead of `delta` where an upstream ignores `stream: true`. */
  message: delta.optional().catch(undefined),
  finish_reason: optionalText,
});

const chunk = z.object({
  choices: z.array(choice).catch([]),
  usage: z.unknown().optional(),
  error: z.unknown().optional(),
});
type OpenAiChunk = z.infer<typeof chunk>;
export type OpenAiDelta = z.infer<typeof delta>;

/** One `data` text as a chunk; undefined when it is not a JSON object. */
export function readChunk(data: string): OpenAiChunk | undefined {
  try {
    return chunk.safeParse(JSON.parse(data)).data;
  } catch {
    return undefined;
  }
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
