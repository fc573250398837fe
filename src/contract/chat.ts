import { z } from 'zod';
import { placeholder } from './placeholder.ts';

/**
 * Chat messages as OpenAI defines them, read openly: unknown keys pass through, null equals absent, and only what the
 * gateway itself relies on is checked.
 */

const textPart = z.looseObject({ type: z.literal('text'), text: z.string() });
const otherPart = z.looseObject({ type: z.string() });
export const contentPart = z.union([textPart, otherPart]);
export type ContentPart = z.infer<typeof contentPart>;

export const toolCall = z.looseObject({
  id: z.string(),
  type: z.string().default('function'),
  function: z
    .looseObject({
      name: z.string(),
      /** Agents sometimes replay parsed arguments, or none; the wire wants a string. */
      arguments: z
        .unknown()
        .optional()
        .transform((value) => (typeof value === 'string' ? value : JSON.stringify(value ?? {}))),
    })
    .optional(),
});
export type ToolCall = z.infer<typeof toolCall>;

export const chatMessage = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
  content: z.union([z.string(), z.array(contentPart)]).nullish(),
  name: z.string().nullish(),
  tool_calls: z.array(toolCall).nullish(),
  tool_call_id: z.string().nullish(),
});
export type ChatMessage = z.infer<typeof chatMessage>;

const tokenChance = z.object({
  token: z.string(),
  /** Natural log of the chance. */
  logprob: z.number(),
  /** Of a character that spans tokens, only its own. */
  bytes: z.array(z.int()),
});
export type TokenChance = z.infer<typeof tokenChance>;

/** One token of an answer, and what might have stood in its place, likeliest first. */
export const tokenLogprob = tokenChance.extend({ top_logprobs: z.array(tokenChance) });
export type TokenLogprob = z.infer<typeof tokenLogprob>;

/** All text of a message; other parts become a placeholder with kind and size so that the policy knows of them. */
export function textOf(message: ChatMessage): string {
  if (message.content === null || message.content === undefined) return '';
  if (typeof message.content === 'string') return message.content;
  return message.content.map(partText).join('\n');
}

function partText(part: ContentPart): string {
  return part.type === 'text' && typeof part['text'] === 'string' ? part['text'] : placeholder(part);
}
