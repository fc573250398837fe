import { readFileSync } from 'node:fs';
import { parse as parseYaml } from 'yaml';
import { z } from 'zod';
import { nearest } from '../preferences/nearest.ts';
import { type Config, configSchema } from './config.ts';
import { crossChecks } from './config-checks.ts';

/** A configuration that cannot be served; its message holds every error, one a line, each with the way out. */
export class ConfigError extends Error {
  constructor(lines: readonly string[]) {
    super(lines.join('\n'));
    this.name = 'ConfigError';
  }
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** Reads and checks a configuration file. `${NAME}` and `${NAME:-default}` in text values come from the environment. */
export function readConfig(path: string, environment: Environment): Config {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable';
    throw new ConfigError([`${path}: cannot be read (${reason}): write one, or start without to use the defaults`]);
  }
  return parseConfig(parseText(text, path), environment);
}

function parseText(text: string, path: string): unknown {
  try {
    return parseYaml(text, { maxAliasCount: 100 }) ?? {};
  } catch (error) {
    throw new ConfigError([`${path}: is not YAML: ${error instanceof Error ? error.message : 'unknown reason'}`]);
  }
}

/** @throws ConfigError with all errors at once. */
export function parseConfig(value: unknown, environment: Environment): Config {
  const problems: string[] = [];
  const filled = interpolate(value, environment, [], problems);
  const parsed = configSchema.safeParse(filled);
  if (!parsed.success) problems.push(...parsed.error.issues.flatMap((issue) => issueLines(issue)));
  else problems.push(...crossChecks(parsed.data));
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  return parsed.data;
}

function interpolate(value: unknown, environment: Environment, path: readonly string[], problems: string[]): unknown {
  if (typeof value === 'string') {
    return value.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g, (_, variable: string, fallback?: string) => {
      const found = environment[variable] || fallback;
      if (found === undefined)
        problems.push(`${path.join('.')}: ${variable} is not set: set it, or write \${${variable}:-default}`);
      return found ?? '';
    });
  }
  if (Array.isArray(value))
    return value.map((item, index) => interpolate(item, environment, [...path, `${index}`], problems));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, item]) => [
    key,
    interpolate(item, environment, [...path, key], problems),
  ]);
  return Object.fromEntries(entries);
}

function issueLines(issue: z.core.$ZodIssue): string[] {
  const path = issue.path.map(String).join('.') || 'configuration';
  if (issue.code !== 'unrecognized_keys') return [`${path}: ${issue.message}`];
  return issue.keys.map((key) => `${path}.${key}: unknown key: ${suggestion(key, issue.path)}`);
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
