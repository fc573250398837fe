import { type Bound, integerRule, multiplesRule, numberRule } from './json-number-rules.ts';
import { refuse, type Schema } from './json-schema.ts';

/** Of numbers or whole numbers, with their bounds and multiples. */
export function numericRule(type: string, schema: Schema, path: string, add: (expression: string) => string): string {
  const least = tighter(boundOf(schema, 'minimum', path), boundOf(schema, 'exclusiveMinimum', path), Math.max);
  const most = tighter(boundOf(schema, 'maximum', path), boundOf(schema, 'exclusiveMaximum', path), Math.min);
  const divisor = divisorOf(schema, path);
  if (type === 'number' && divisor === undefined) {
    return numberRule({ least, most }) ?? refuse(path, 'bounds that leave no number');
  }
  const first = least && (least.excluded ? Math.floor(least.value) + 1 : Math.ceil(least.value));
  const last = most && (most.excluded ? Math.ceil(most.value) - 1 : Math.floor(most.value));
  if (first !== undefined && last !== undefined && first > last) refuse(path, 'bounds that leave no number');
  if (divisor === undefined || divisor === 1) return integerRule(first, last);
  const rule = multiplesRule(divisor, first, last, add);
  return rule ?? refuse(path, '`multipleOf` with these bounds');
}

function boundOf(schema: Schema, key: string, path: string): Bound | undefined {
  const value = schema[key];
  if (value === undefined) return undefined;
  const isUsable = typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  if (!isUsable) refuse(path, `\`${key}\` that is no number, or too large`);
  return { value, excluded: key.startsWith('exclusive') };
}

/** Of equal bounds the one that excludes. */
function tighter(one: Bound | undefined, other: Bound | undefined, pick: typeof Math.max): Bound | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  if (one.value === other.value) return one.excluded ? one : other;
  return pick(one.value, other.value) === one.value ? one : other;
}

function divisorOf(schema: Schema, path: string): number | undefined {
  const value = schema['multipleOf'];
  if (value === undefined) return undefined;
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0
    ? value
    : refuse(path, '`multipleOf` that is no whole number');
}
