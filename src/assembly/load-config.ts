import { readFileSync } from 'node:fs';
import { parse as parseYaml, YAMLParseError } from 'yaml';
import { type Config, configSchema } from './config.ts';
import { crossChecks, keyChecks } from './config-checks.ts';
import { issueLines } from './config-issues.ts';
import { preferenceChecks } from './preference-checks.ts';
import { readPriceRows } from './prices.ts';
import type { Environment } from './settings.ts';
import { slotsFrom } from './slots.ts';

/** A configuration that cannot be served; its message holds every error, one a line, each with the way out. */
export class ConfigError extends Error {
  constructor(lines: readonly string[]) {
    super(lines.join('\n'));
    this.name = 'ConfigError';
  }
}

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
    throw new ConfigError([
      `${path}: is not YAML: ${error instanceof Error ? withoutExcerpt(error) : 'unknown reason'}`,
    ]);
  }
}

/** The parser shows the lines around a mistake, and they may hold a key that somebody pasted. */
function withoutExcerpt(error: Error): string {
  const [sentence = ''] = error.message.split('\n');
  return error instanceof YAMLParseError ? sentence.replace(/:$/, '') : sentence;
}

/** @throws ConfigError with all errors of shape at once or, where the shape is right, with all errors of meaning. */
export function parseConfig(value: unknown, environment: Environment): Config {
  const missing = new Map<string, string>();
  const filled = interpolate(value, environment, [], missing);
  const parsed = configSchema.safeParse(filled);
  const problems = [...missing.values()];
  if (parsed.success) problems.push(...meaningChecks(parsed.data, environment));
  else problems.push(...parsed.error.issues.filter(({ path }) => !missing.has(path.join('.'))).flatMap(issueLines));
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  return parsed.data;
}

function meaningChecks(config: Config, environment: Environment): string[] {
  const { slots, problems } = slotsFrom(config, readPriceRows(), Date.now());
  return [...crossChecks(config), ...keyChecks(config, environment), ...preferenceChecks(config, slots), ...problems];
}

/** @param missing receives one line a path at which a variable is not set. */
function interpolate(
  value: unknown,
  environment: Environment,
  path: readonly string[],
  missing: Map<string, string>,
): unknown {
  if (typeof value === 'string') {
    return value.replace(
      /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g,
      (written, variable: string, fallback?: string) => {
        const found = environment[variable] || fallback;
        const at = path.join('.');
        if (found === undefined)
          missing.set(at, `${at}: ${variable} is not set: set it, or write \${${variable}:-default}`);
        // Left as it stands, so that nothing else looks wrong because of it.
        return found ?? written;
      },
    );
  }
  if (Array.isArray(value))
    return value.map((item, index) => interpolate(item, environment, [...path, `${index}`], missing));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, item]) => [
    key,
    interpolate(item, environment, [...path, key], missing),
  ]);
  return Object.fromEntries(entries);
}
