import { z } from 'zod';

/** The events of Anthropic's Messages stream, read openly: what is not known here is no event at all. */

const index = z.int().nonnegative();
const usage = z.unknown().optional();

const block = z.union([
  z.object({ type: z.literal('tool_use'), id: z.string().optional(), name: z.string().optional() }),
  z.object({ type: z.literal('text'), text: z.string().catch('') }),
  z.object({ type: z.literal('thinking'), thinking: z.string().catch('') }),
]);
export type AnthropicBlock = z.infer<typeof block>;

const delta = z.union([
  z.object({ type: z.literal('text_delta'), text: z.string() }),
  z.object({ type: z.literal('thinking_delta'), thinking: z.string() }),
  z.object({ type: z.literal('input_json_delta'), partial_json: z.string() }),
]);
export type AnthropicDelta = z.infer<typeof delta>;

const event = z.union([
  z.object({ type: z.literal('message_start'), message: z.object({ usage }) }),
  z.object({ type: z.literal('content_block_start'), index, content_block: block }),
  z.object({ type: z.literal('content_block_delta'), index, delta }),
  z.object({
    type: z.literal('message_delta'),
    delta: z.object({ stop_reason: z.string().nullish().catch(undefined) }),
    usage,
  }),
  z.object({ type: z.literal('message_stop') }),
  z.object({ type: z.literal('error'), error: z.unknown().optional() }),
]);
type AnthropicEvent = z.infer<typeof event>;

/** One `data` text: an event, `other` for pings and what later versions add, undefined when it is no JSON object. */
export function readEvent(data: string): AnthropicEvent | { readonly type: 'other' } | undefined {
  try {
    const json: unknown = JSON.parse(data);
    if (!z.looseObject({ type: z.string() }).safeParse(json).success) return undefined;
    return event.safeParse(json).data ?? { type: 'other' };
  } catch {
    return undefined;
  }
}
