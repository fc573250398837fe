import { z } from 'zod';

/** The events of OpenAI's Responses stream, read openly: what is not known here is no event at all. */

const output_index = z.int().nonnegative().catch(0);
const optionalText = z.string().optional().catch(undefined);

const item = z.union([
  z.object({
    type: z.literal('function_call'),
    call_id: optionalText,
    id: optionalText,
    name: optionalText,
    arguments: optionalText,
  }),
  z.object({
    type: z.literal('message'),
    content: z.array(z.looseObject({ text: optionalText, refusal: optionalText })).catch([]),
  }),
]);
export type OutputItem = z.infer<typeof item>;

const response = z.object({
  status: optionalText,
  output: z.array(item.or(z.unknown().transform(() => undefined))).catch([]),
  incomplete_details: z.object({ reason: optionalText }).nullish().catch(undefined),
  error: z.unknown().optional(),
  usage: z.unknown().optional(),
});
export type WireResponse = z.infer<typeof response>;

const textDelta = z.object({
  type: z.enum(['response.output_text.delta', 'response.refusal.delta']),
  output_index,
  delta: z.string(),
});
const event = z.union([
  textDelta,
  z.object({
    type: z.enum(['response.reasoning_summary_text.delta', 'response.reasoning_text.delta']),
    delta: z.string(),
  }),
  z.object({ type: z.literal('response.function_call_arguments.delta'), output_index, delta: z.string() }),
  z.object({ type: z.enum(['response.output_item.added', 'response.output_item.done']), output_index, item }),
  z.object({ type: z.enum(['response.completed', 'response.incomplete', 'response.failed']), response }),
  z.looseObject({ type: z.literal('error') }),
]);
type ResponsesEvent = z.infer<typeof event>;

const whole = response
  .extend({ object: z.literal('response') })
  .transform((body) => ({ type: endings[body.status ?? ''] ?? 'response.completed', response: body }) as const);
const endings: Readonly<Record<string, 'response.incomplete' | 'response.failed'>> = {
  incomplete: 'response.incomplete',
  failed: 'response.failed',
};

/** One `data` text: an event, `other` for what is not needed, undefined when it is no JSON object. */
export function readEvent(data: string): ResponsesEvent | { readonly type: 'other' } | undefined {
  try {
    const json: unknown = JSON.parse(data);
    // Where a stream was asked for and ignored, the response itself is the only frame.
    const body = whole.safeParse(json).data;
    if (body) return body;
    if (!z.looseObject({}).safeParse(json).success) return undefined;
    return event.safeParse(json).data ?? { type: 'other' };
  } catch {
    return undefined;
  }
}
