export type Json = string | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/**
 * JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it, which is what the chat template's `tojson` does
 * where policies are trained: `", "` and `": "`, keys as inserted, nothing escaped that need not be. Numbers are left
 * out on purpose: the two languages print them differently.
 */
export function dumpJson(value: Json): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (isList(value)) return `[${value.map(dumpJson).join(', ')}]`;
  const members = Object.entries(value).map(([key, member]) => `${JSON.stringify(key)}: ${dumpJson(member)}`);
  return `{${members.join(', ')}}`;
}

/** `Array.isArray` does not narrow read-only arrays. */
const isList = (value: object): value is readonly Json[] => Array.isArray(value);
