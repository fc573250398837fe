import { EngineFailure } from './engine.ts';
import { PatternProblem, patternRule } from './json-pattern-rules.ts';
import { anyOf, baseRules, literal, stringFormats } from './json-scalar-rules.ts';
import { refuse, type Schema } from './json-schema.ts';
import { numericRule } from './json-schema-numbers.ts';

/**
 * GBNF of the JSON texts that a schema allows, or of a part of them: whatever a model writes under it is valid. What
 * cannot be enforced is refused by name; the library's own converter would accept it and enforce something else.
 */
export function jsonSchemaGrammar(schema: unknown): string {
  const grammar = new JsonGrammar();
  return grammar.withRoot(grammar.expression(schema));
}

/** Schemas come from clients: a short one can ask for a grammar without end. What people write is far below both. */
const mostLetters = 500_000;
const mostLevels = 64;

/** Rules for one or more schemas, to be put together by whoever writes the root. */
export class JsonGrammar {
  readonly #rules = new Map<string, string>([...baseRules, ['value', valueRule]]);
  #letters = 0;

  /** Of the texts that a schema allows; its references are its own. One that cannot be enforced leaves nothing behind. */
  expression(schema: unknown): string {
    const [rulesBefore, lettersBefore] = [this.#rules.size, this.#letters];
    try {
      return expressionOf(schema, '#', this.#contextFor(schema));
    } catch (error) {
      for (const name of [...this.#rules.keys()].slice(rulesBefore)) this.#rules.delete(name);
      this.#letters = lettersBefore;
      throw error instanceof EngineFailure
        ? error
        : new EngineFailure('invalid', 'the JSON schema is malformed', error);
    }
  }

  #contextFor(schema: unknown): Context {
    let level = 0;
    const byPointer = new Map<string, string>();
    const context: Context = {
      add: (expression) => {
        const name = `rule-${this.#rules.size}`;
        this.#rules.set(name, expression);
        this.#letters += expression.length;
        return name;
      },
      within: (path, write) => {
        level += 1;
        if (level > mostLevels) refuse(path, 'it is nested too deeply');
        const expression = write();
        level -= 1;
        this.#letters += expression.length;
        if (this.#letters > mostLetters) refuse(path, 'it is too large');
        return expression;
      },
      reference: (pointer, path) => {
        const known = byPointer.get(pointer);
        if (known !== undefined) return known;
        const name = `rule-${this.#rules.size}`;
        byPointer.set(pointer, name);
        this.#rules.set(name, '');
        this.#rules.set(name, expressionOf(resolve(schema, pointer, path), pointer, context));
        return name;
      },
    };
    return context;
  }

  withRoot(expression: string): string {
    return [...this.#rules, ['root', expression]].map(([name, rule]) => `${name} ::= ${rule}`).join('\n');
  }
}

interface Context {
  /** Of a rule of its own for an expression that occurs several times. */
  add(expression: string): string;
  /** Keeps count while a part is written. */
  within(path: string, write: () => string): string;
  reference(pointer: string, path: string): string;
}

const annotations = new Set(
  'title description default examples example deprecated readOnly writeOnly $schema $id $comment $defs definitions'.split(
    ' ',
  ),
);
const keywordsOfType: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength', 'format', 'pattern'],
  integer: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  boolean: [],
  null: [],
};
/** llama.cpp refuses longer repetitions. */
const mostRepetitions = 2_000;
const comma = '"," " "?';
const colon = '":" " "?';
const anyString = String.raw`"\"" char* "\""`;
const anyNumber = '"-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,15})? ([eE] [+-]? [0-9]{1,2})?';
const valueRule = `${anyString} | ${anyNumber} | "true" | "false" | "null" | "[" (value (${comma} value)*)? "]" | "{" (${anyString} ${colon} value (${comma} ${anyString} ${colon} value)*)? "}"`;

const expressionOf = (schema: unknown, path: string, context: Context): string =>
  context.within(path, () => writtenOut(schema, path, context));

function writtenOut(schema: unknown, path: string, context: Context): string {
  if (schema === true) return 'value';
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) refuse(path, 'this is no schema');
  // Checked just before; JSON has no other objects.
  const found = schema as Schema;
  const used = Object.keys(found).filter((key) => !annotations.has(key));
  const only = (...allowed: string[]) => {
    const unknown = used.find((key) => !allowed.includes(key));
    if (unknown !== undefined) refuse(path, `\`${unknown}\``);
  };
  if (used.length === 0) return 'value';
  if ('$ref' in found) {
    only('$ref');
    return context.reference(String(found['$ref']), path);
  }
  if ('const' in found) return literalsOf([found['const']], found, path);
  if ('enum' in found) return literalsOf(found['enum'], found, path);
  for (const key of ['anyOf', 'oneOf', 'allOf']) {
    if (!(key in found)) continue;
    only(key);
    return combination(key, found[key], path, context);
  }
  const types = typesOf(found, used, path);
  only('type', ...types.flatMap((type) => keywordsOfType[type] ?? []));
  return anyOf(types.map((type) => ofType(type, found, path, context)));
}

function typesOf({ type }: Schema, used: readonly string[], path: string): string[] {
  if (type === undefined) refuse(path, `\`${used[0]}\` without \`type\``);
  const types = Array.isArray(type) ? type.map(String) : [String(type)];
  const unknown = types.find((name) => !(name in keywordsOfType));
  if (unknown !== undefined || types.length === 0) refuse(path, `type \`${unknown ?? ''}\``);
  return [...new Set(types)];
}

/** The type beside an `enum` is not asked: its values are what they are. */
function literalsOf(values: unknown, schema: Schema, path: string): string {
  const beside = Object.keys(schema).find((key) => !['const', 'enum', 'type'].includes(key) && !annotations.has(key));
  if (beside !== undefined) refuse(path, `\`${beside}\` beside fixed values`);
  if (!Array.isArray(values) || values.length === 0) refuse(path, '`enum` without values');
  return anyOf(values.map((value) => literal(JSON.stringify(value))));
}

function combination(key: string, options: unknown, path: string, context: Context): string {
  if (!Array.isArray(options) || options.length === 0) refuse(path, `\`${key}\` without schemas`);
  const [first] = options;
  if (options.length === 1) return expressionOf(first, `${path}/${key}/0`, context);
  if (key === 'allOf') refuse(path, '`allOf` of several schemas');
  if (key === 'oneOf') {
    const types = options.map((option: Schema) => String(option?.['type']));
    const isDisjoint = types.every((type) => type in keywordsOfType) && new Set(types).size === types.length;
    const bothNumbers = types.includes('integer') && types.includes('number');
    if (!isDisjoint || bothNumbers) refuse(path, '`oneOf` whose schemas are not of different types');
  }
  return anyOf(options.map((option, index) => expressionOf(option, `${path}/${key}/${index}`, context)));
}

function ofType(type: string, schema: Schema, path: string, context: Context): string {
  switch (type) {
    case 'object':
      return objectRule(schema, path, context);
    case 'array':
      return arrayRule(schema, path, context);
    case 'string':
      return stringRule(schema, path);
    case 'boolean':
      return '("true" | "false")';
    case 'null':
      return '"null"';
    default:
      return numericRule(type, schema, path, context.add);
  }
}

/** Properties in the order of the schema; others are never written, although most schemas would allow them. */
function objectRule(schema: Schema, path: string, context: Context): string {
  const properties = Object.entries((schema['properties'] ?? {}) as Schema);
  const required = new Set((schema['required'] ?? []) as string[]);
  const others = schema['additionalProperties'];
  for (const name of required)
    if (!properties.some(([known]) => known === name)) properties.push([name, others ?? true]);
  if (properties.length === 0) {
    if (others === false) return '"{}"';
    const member = context.add(
      `${anyString} ${colon} ${expressionOf(others ?? true, `${path}/additionalProperties`, context)}`,
    );
    return `"{" (${member} (${comma} ${member})*)? "}"`;
  }
  const members = properties.map(([name, property]) => ({
    isRequired: required.has(name),
    rule: context.add(
      `${literal(JSON.stringify(name))} ${colon} ${expressionOf(property, `${path}/properties/${name}`, context)}`,
    ),
  }));
  return `"{" ${membersFrom(members, context)} "}"`;
}

interface Member {
  readonly isRequired: boolean;
  readonly rule: string;
}

/** `rest` follows some member, `start` follows none: only the first member written has no comma before it. */
function membersFrom(members: readonly Member[], context: Context): string {
  let rest = '""';
  let start = '""';
  for (const { isRequired, rule } of members.toReversed()) {
    const written = `${rule} ${rest}`;
    start = context.add(isRequired ? written : `${written} | ${start}`);
    rest = context.add(isRequired ? `${comma} ${written}` : `(${comma} ${rule})? ${rest}`);
  }
  return start;
}

function arrayRule(schema: Schema, path: string, context: Context): string {
  const prefix = (schema['prefixItems'] ?? []) as unknown[];
  if (prefix.length > 0 && schema['items'] !== false) refuse(path, '`prefixItems` without `items: false`');
  if (prefix.length > 0) {
    if ('minItems' in schema || 'maxItems' in schema) refuse(path, '`minItems` or `maxItems` beside `prefixItems`');
    const items = prefix.map((item, index) => expressionOf(item, `${path}/prefixItems/${index}`, context));
    return `"[" ${items.join(` ${comma} `)} "]"`;
  }
  const least = countOf(schema, 'minItems', path) ?? 0;
  const most = countOf(schema, 'maxItems', path);
  if (most !== undefined && most < least) refuse(path, '`maxItems` below `minItems`');
  if (most === 0 || schema['items'] === false) return '"[]"';
  const item = context.add(expressionOf(schema['items'] ?? true, `${path}/items`, context));
  const more = `(${comma} ${item}){${Math.max(0, least - 1)},${most === undefined ? '' : most - 1}}`;
  return least > 0 ? `"[" ${item} ${more} "]"` : `"[" (${item} ${more})? "]"`;
}

function stringRule(schema: Schema, path: string): string {
  const least = countOf(schema, 'minLength', path) ?? 0;
  const most = countOf(schema, 'maxLength', path);
  if (most !== undefined && most < least) refuse(path, '`maxLength` below `minLength`');
  if ('pattern' in schema) return patternedString(schema, path);
  if (!('format' in schema)) return String.raw`"\"" char{${least},${most ?? ''}} "\""`;
  const format = stringFormats.get(String(schema['format']));
  if (format === undefined) refuse(path, `format \`${String(schema['format'])}\``);
  if ('minLength' in schema || 'maxLength' in schema) refuse(path, 'a length beside `format`');
  return String.raw`"\"" ${format} "\""`;
}

function patternedString(schema: Schema, path: string): string {
  const beside = ['format', 'minLength', 'maxLength'].find((key) => key in schema);
  if (beside !== undefined) refuse(path, `\`${beside}\` beside \`pattern\``);
  try {
    return String.raw`"\"" ${patternRule(String(schema['pattern']))} "\""`;
  } catch (error) {
    if (error instanceof PatternProblem) refuse(path, `\`pattern\` with ${error.message}`);
    throw error;
  }
}

function countOf(schema: Schema, key: string, path: string): number | undefined {
  const value = schema[key];
  if (value === undefined) return undefined;
  const isCount = typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= mostRepetitions;
  return isCount ? value : refuse(path, `\`${key}\` that is no whole number up to ${mostRepetitions}`);
}

function resolve(root: unknown, pointer: string, path: string): unknown {
  if (pointer !== '#' && !pointer.startsWith('#/')) refuse(path, `$ref \`${pointer}\`, which is elsewhere`);
  let found = root;
  for (const step of pointer.split('/').slice(1)) {
    const key = decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~');
    found =
      typeof found === 'object' && found !== null && Object.hasOwn(found, key) ? (found as Schema)[key] : undefined;
  }
  return found === undefined ? refuse(path, `$ref \`${pointer}\`, which is not there`) : found;
}
