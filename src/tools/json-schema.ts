type JsonObject = Readonly<Record<string, unknown>>;

/** Steps left; a schema can ask for exponential work, and both schema and value come from outside. */
interface Walk {
  readonly root: unknown;
  stepsLeft: number;
}

class TooMuchWork extends Error {}

/**
 * Whether a value satisfies a JSON schema, or undefined where that takes more than `mostSteps`. It knows the keywords of
 * structured outputs; `pattern`, `format` and what is rarer are left to whoever wrote the value.
 */
export function satisfiesSchema(value: unknown, schema: unknown, mostSteps = 200_000): boolean | undefined {
  try {
    return holds(value, schema, { root: schema, stepsLeft: mostSteps });
  } catch (error) {
    // A value or schema nested too deeply for the stack is too much work as well.
    if (error instanceof TooMuchWork || error instanceof RangeError) return undefined;
    throw error;
  }
}

function holds(value: unknown, schema: unknown, walk: Walk): boolean {
  spend(walk, 1);
  if (typeof schema === 'boolean') return schema;
  if (!isObject(schema)) return true;
  spend(walk, effortOf(value) + effortOf(schema['required']) + effortOf(schema['type']));
  return rules.every((rule) => rule(value, schema, walk));
}

function spend(walk: Walk, steps: number): void {
  walk.stepsLeft -= steps;
  if (walk.stepsLeft < 0) throw new TooMuchWork();
}

/** In the time of one step so many letters are counted. */
const lettersPerStep = 20;

/** Steps to look through one list, object or text, without what is inside. */
function effortOf(value: unknown): number {
  if (typeof value === 'string') return Math.floor(value.length / lettersPerStep);
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
}

/** Each looks at the keywords that it knows and lets everything else pass. */
type Rule = (value: unknown, schema: JsonObject, walk: Walk) => boolean;

const rules: readonly Rule[] = [
  (value, { $ref: ref }, walk) => typeof ref !== 'string' || holds(value, resolve(ref, walk), walk),
  (value, { type }) => type === undefined || [type].flat().some((name) => isOfType(value, name)),
  (value, { enum: values }, walk) => !Array.isArray(values) || values.some((one) => isEqual(value, one, walk)),
  (value, schema, walk) => !Object.hasOwn(schema, 'const') || isEqual(value, schema['const'], walk),
  (value, { allOf }, walk) => listOf(allOf).every((part) => holds(value, part, walk)),
  (value, { anyOf }, walk) => !Array.isArray(anyOf) || anyOf.some((part) => holds(value, part, walk)),
  (value, { oneOf }, walk) => !Array.isArray(oneOf) || oneOf.filter((part) => holds(value, part, walk)).length === 1,
  (value, schema, walk) => !isObject(value) || objectHolds(value, schema, walk),
  (value, schema, walk) => !Array.isArray(value) || arrayHolds(value, schema, walk),
  (value, schema) => typeof value !== 'number' || numberHolds(value, schema),
  (value, schema) => typeof value !== 'string' || within([...value].length, schema['minLength'], schema['maxLength']),
];

function objectHolds(value: JsonObject, schema: JsonObject, walk: Walk): boolean {
  const properties = isObject(schema['properties']) ? schema['properties'] : {};
  const patterned = isObject(schema['patternProperties']);
  return (
    listOf(schema['required']).every((name) => typeof name !== 'string' || Object.hasOwn(value, name)) &&
    within(Object.keys(value).length, schema['minProperties'], schema['maxProperties']) &&
    Object.entries(value).every(([name, member]) => {
      if (Object.hasOwn(properties, name)) return holds(member, properties[name], walk);
      return patterned || holds(member, schema['additionalProperties'], walk);
    })
  );
}

function arrayHolds(value: readonly unknown[], schema: JsonObject, walk: Walk): boolean {
  const first = listOf(schema['prefixItems']);
  return (
    within(value.length, schema['minItems'], schema['maxItems']) &&
    value.every((item, index) => holds(item, index < first.length ? first[index] : schema['items'], walk))
  );
}

function numberHolds(value: number, schema: JsonObject): boolean {
  const { exclusiveMinimum: above, exclusiveMaximum: below } = schema;
  return (
    within(value, schema['minimum'], schema['maximum']) &&
    (typeof above !== 'number' || value > above) &&
    (typeof below !== 'number' || value < below)
  );
}

const within = (value: number, least: unknown, most: unknown): boolean =>
  (typeof least !== 'number' || value >= least) && (typeof most !== 'number' || value <= most);

function isOfType(value: unknown, name: unknown): boolean {
  if (name === 'null') return value === null;
  if (name === 'array') return Array.isArray(value);
  if (name === 'object') return isObject(value);
  if (name === 'integer') return Number.isInteger(value);
  return typeof value === name;
}

/** A reference inside the schema; one that leads nowhere asks for nothing. */
function resolve(ref: string, walk: Walk): unknown {
  if (!ref.startsWith('#')) return true;
  spend(walk, ref.length);
  const steps = ref.slice(1).split('/').slice(1);
  return steps
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((at, step) => (isObject(at) && Object.hasOwn(at, step) ? at[step] : undefined), walk.root);
}

function isEqual(left: unknown, right: unknown, walk: Walk): boolean {
  spend(walk, 1 + effortOf(left));
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, index) => isEqual(item, right[index], walk));
  }
  if (!isObject(left) || !isObject(right)) return left === right;
  const names = Object.keys(left);
  return (
    names.length === Object.keys(right).length &&
    names.every((name) => Object.hasOwn(right, name) && isEqual(left[name], right[name], walk))
  );
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
