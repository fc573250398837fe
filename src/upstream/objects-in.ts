import { isObject, type JsonObject } from './relay-request.ts';

/** Every object in what a client sent, wherever it stands. Lists of token ids are long, so no list becomes arguments. */
export function objectsIn(value: unknown): JsonObject[] {
  const found: JsonObject[] = [];
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (isObject(next)) found.push(next);
    for (const part of partsOf(next)) if (typeof part === 'object') open.push(part);
  }
  return found;
}

const partsOf = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? value : isObject(value) ? Object.values(value) : [];
