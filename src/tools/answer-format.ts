import { z } from 'zod';
import { satisfiesSchema } from './json-schema.ts';

/** How an answer stands to the `response_format` that the client asked for. */
export type FormatVerdict =
  | 'met'
  /** Not as it was asked for; the client allows for that. */
  | 'missed'
  /** Not as it was asked for, and the client relies on it (`strict`): such an answer is none. */
  | 'broken';

const formats = z.discriminatedUnion('type', [
  z.object({ type: z.literal('json_object') }),
  z.object({
    type: z.literal('json_schema'),
    json_schema: z.object({ schema: z.unknown(), strict: z.boolean().nullish() }),
  }),
]);

/**
 * Judges a whole answer: all of it must be JSON, without a fence or a word around it. A schema that takes too much work
 * to check is left to the expert, which has promised to hold to it.
 */
export function formatVerdict(
  text: string,
  { response_format: asked }: Readonly<Record<string, unknown>>,
): FormatVerdict {
  const format = formats.safeParse(asked).data;
  if (format === undefined) return 'met';
  const [schema, strict] =
    format.type === 'json_schema'
      ? [format.json_schema.schema ?? anyObject, format.json_schema.strict === true]
      : [anyObject, false];
  if (isJson(text, schema)) return 'met';
  return strict ? 'broken' : 'missed';
}

const anyObject = { type: 'object' };

function isJson(text: string, schema: unknown): boolean {
  try {
    return satisfiesSchema(JSON.parse(text), schema) !== false;
  } catch {
    return false;
  }
}
