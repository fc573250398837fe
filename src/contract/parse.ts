import { z } from 'zod';
import type { Contract, ContractRole } from './schema.ts';

export const malformedReasons = [
  'unfinished_thought',
  'no_call',
  'bad_json',
  'unknown_function',
  'no_model',
  'unknown_slot',
] as const;
type MalformedReason = (typeof malformedReasons)[number];

export type Decision =
  | { readonly kind: 'call'; readonly role: ContractRole; readonly slot: string }
  | { readonly kind: 'malformed'; readonly reason: MalformedReason };

export interface AdmissibleCall {
  readonly role: ContractRole;
  readonly slot: string;
}

const callSchema = z.looseObject({ name: z.string(), arguments: z.unknown() });
const argumentsSchema = z.looseObject({ model: z.string() });

const malformed = (reason: MalformedReason): Decision => ({ kind: 'malformed', reason });

/**
 * Reads what a policy wrote, by text. The first call decides; a thought before it, further calls and extra arguments
 * are tolerated; tags inside strings are only text.
 */
export function parseDecision(text: string, contract: Contract, admissible: readonly AdmissibleCall[]): Decision {
  const spoken = afterThought(text, contract);
  if (spoken === undefined) return malformed('unfinished_thought');
  const tag = contract.chat.callOpen.trim();
  const start = spoken.indexOf(tag);
  if (start < 0) return malformed('no_call');
  const call = callSchema.safeParse(leadingJson(spoken.slice(start + tag.length)));
  if (!call.success) return malformed('bad_json');
  const wanted = contract.functions.find(({ tool }) => tool.function.name === call.data.name);
  if (wanted === undefined) return malformed('unknown_function');
  const chosen = argumentsSchema.safeParse(call.data.arguments);
  if (!chosen.success) return malformed('no_model');
  const slot = chosen.data.model;
  const offered = admissible.some((candidate) => candidate.role === wanted.role && candidate.slot === slot);
  return offered ? { kind: 'call', role: wanted.role, slot } : malformed('unknown_slot');
}

/** What follows the thought, which is there only when the text begins with it; undefined when it never closes. */
function afterThought(text: string, { chat }: Contract): string | undefined {
  const open = chat.thoughtOpen.trim();
  const close = chat.thoughtClose.trim();
  if (!text.trimStart().startsWith(open)) return text;
  const end = text.indexOf(close);
  return end < 0 ? undefined : text.slice(end + close.length);
}

/** The JSON object at the beginning, whatever follows it; undefined when there is none. */
function leadingJson(text: string): unknown {
  const object = /^[ \t\r\n]*\{/.test(text) ? text.slice(0, endOfObject(text)) : '';
  try {
    return JSON.parse(object);
  } catch {
    return undefined;
  }
}

/** Index behind the brace that closes the first object; braces in strings do not count. */
function endOfObject(text: string): number {
  let depth = 0;
  for (const match of text.matchAll(/"(?:[^"\\]|\\.)*"?|[{}]/gs)) {
    if (match[0] === '{') depth += 1;
    if (match[0] === '}') depth -= 1;
    if (depth === 0) return match.index + 1;
  }
  return text.length;
}
