import { z } from 'zod';
import { nearest } from '../preferences/nearest.ts';
import { configSchema } from './config.ts';

/** One line a mistake: path, what is wrong, and what would be right. */
export function issueLines(issue: z.core.$ZodIssue): string[] {
  const { path } = issue;
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => `${[...path, key].join('.')}: unknown key: ${suggestion(key, path)}`);
  }
  const [reason] = issue.code === 'invalid_key' ? issue.issues : [issue];
  return [`${path.join('.') || 'configuration'}: ${reason?.message ?? issue.message}`];
}

function suggestion(key: string, path: readonly PropertyKey[]): string {
  const valid = [...new Set(keysAt(jsonSchema, path))];
  const near = nearest(key, valid);
  return near ? `did you mean \`${near}\`?` : `known here: ${valid.join(', ')}`;
}

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly additionalProperties?: SchemaNode | boolean;
  readonly items?: SchemaNode;
  readonly anyOf?: readonly SchemaNode[];
  readonly oneOf?: readonly SchemaNode[];
}

// Zod writes plain JSON Schema; these few keywords are all that the walk looks at.
const jsonSchema = z.toJSONSchema(configSchema, { io: 'input' }) as SchemaNode;

function keysAt(node: SchemaNode, path: readonly PropertyKey[]): string[] {
  const branches = [...(node.anyOf ?? []), ...(node.oneOf ?? [])];
  const inBranches = branches.flatMap((branch) => keysAt(branch, path));
  const [step, ...rest] = path;
  if (step === undefined) return [...Object.keys(node.properties ?? {}), ...inBranches];
  const more = typeof node.additionalProperties === 'object' ? node.additionalProperties : undefined;
  const next = node.properties?.[String(step)] ?? node.items ?? more;
  return next ? [...keysAt(next, rest), ...inBranches] : inBranches;
}
