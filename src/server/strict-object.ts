import type { z } from 'zod';
import { OrchestraError } from '../errors.ts';
import { nearest } from '../preferences/nearest.ts';

/**
 * Reads a flat object of ours, a body or a query. A misspelt key is an error: ignoring a filter would answer another
 * question than was asked.
 * @throws OrchestraError invalid_request with the path and the nearest valid key.
 */
export function parseStrict<Schema extends z.ZodObject>(schema: Schema, value: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { issues } = parsed.error;
  // First, since what is misspelt is missing under its right name, too.
  const unknownKey = issues.flatMap((one) => (one.code === 'unrecognized_keys' ? one.keys : []))[0];
  if (unknownKey !== undefined) throw unknownKeyError(unknownKey.slice(0, 64), Object.keys(schema.shape));
  const [issue] = issues;
  const param = issue?.path.join('.') ?? '';
  if (param === '') throw new OrchestraError('invalid_request', 'The body must be a JSON object.');
  const missing = isObject(value) && !(param in value);
  const reason = missing ? 'is missing' : (issue?.message ?? 'is not valid');
  throw new OrchestraError('invalid_request', `${param}: ${reason}.`, { param });
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

function unknownKeyError(param: string, valid: readonly string[]): OrchestraError {
  const near = nearest(param, valid);
  const wayOut = near ? `Did you mean \`${near}\`?` : `Valid keys: ${valid.join(', ')}.`;
  return new OrchestraError('invalid_request', `${param}: unknown key. ${wayOut}`, { param });
}
