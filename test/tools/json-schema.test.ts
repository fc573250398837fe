import { describe, expect, test } from 'vitest';
import { satisfiesSchema } from '../../src/tools/json-schema.ts';

const price = { type: 'object', properties: { usd: { type: 'number', minimum: 0 } }, required: ['usd'] };
const tree = {
  $defs: { node: { type: 'object', properties: { children: { type: 'array', items: { $ref: '#/$defs/node' } } } } },
  $ref: '#/$defs/node',
};

describe('a value and a schema', () => {
  test.each<[string, unknown, unknown, boolean]>([
    ['a type', 1, { type: 'number' }, true],
    ['another type', '1', { type: 'number' }, false],
    ['one of several types', null, { type: ['string', 'null'] }, true],
    ['a whole number', 1.5, { type: 'integer' }, false],
    ['an array is no object', [], { type: 'object' }, false],
    ['null is no object', null, { type: 'object' }, false],
    ['an enumerated value', 'b', { enum: ['a', 'b'] }, true],
    ['an enumerated object in another order', { b: 2, a: 1 }, { enum: [{ a: 1, b: 2 }] }, true],
    ['a value that is not enumerated', 'c', { enum: ['a', 'b'] }, false],
    ['a constant null', 0, { const: null }, false],
    ['all that is required', { usd: 1 }, price, true],
    ['something required is missing', {}, price, false],
    ['a property of the wrong type', { usd: 'free' }, price, false],
    ['a bound', { usd: -1 }, price, false],
    ['an exclusive bound', 0, { exclusiveMinimum: 0 }, false],
    ['a further property', { usd: 1, eur: 2 }, price, true],
    ['a further property where none may be', { usd: 1, eur: 2 }, { ...price, additionalProperties: false }, false],
    ['further properties of a kind', { a: 1 }, { additionalProperties: { type: 'string' } }, false],
    ['a property that every object inherits', {}, { required: ['toString'] }, false],
    ['items', [1, '2'], { items: { type: 'number' } }, false],
    ['first items', ['x', 2], { prefixItems: [{ type: 'string' }], items: { type: 'number' } }, true],
    ['too few items', [], { minItems: 1 }, false],
    ['a length in characters, not in units', '😀😀', { maxLength: 2 }, true],
    ['any of', 1, { anyOf: [{ type: 'string' }, { type: 'number' }] }, true],
    ['exactly one of', 1, { oneOf: [{ type: 'number' }, { minimum: 0 }] }, false],
    ['all of', 1, { allOf: [{ type: 'number' }, { minimum: 2 }] }, false],
    ['a recursive schema', { children: [{ children: [] }] }, tree, true],
    ['a fault deep in a recursive schema', { children: [{ children: [1] }] }, tree, false],
    ['a reference that leads nowhere', 1, { $ref: '#/$defs/absent' }, true],
    ['never', 1, false, false],
    ['keywords that nobody knows', 1, { pattern: 'x', unheardOf: 3 }, true],
  ])('%s: %j against %j is %s', (_, value, schema, expected) => {
    expect(satisfiesSchema(value, schema)).toBe(expected);
  });

  test('that ask for exponential or endless work are given up', () => {
    const doubling = { anyOf: [{ properties: { x: { $ref: '#' } } }, { properties: { x: { $ref: '#' } } }], const: 1 };
    let deep: unknown = 0;
    for (let depth = 0; depth < 60; depth += 1) deep = { x: deep };
    expect(satisfiesSchema(deep, { ...doubling, required: ['absent'] })).toBe(false);
    expect(satisfiesSchema(deep, { allOf: [...doubling.anyOf, ...doubling.anyOf] })).toBeUndefined();
    expect(satisfiesSchema(1, { $ref: '#' })).toBeUndefined();
  });

  const many = <Item>(item: Item): Item[] => new Array<Item>(2_000).fill(item);
  test.each<[string, unknown, unknown]>([
    ['a long text, whose letters are counted', 'a'.repeat(100_000), { anyOf: many({ minLength: 200_000 }) }],
    ['long lists of required names', many({ a: 1 }), { items: { required: many('a') } }],
    ['long lists of types', many(1), { items: { type: many('string').with(-1, 'number') } }],
    ['long references', many(1), { items: { $ref: `#${'/x'.repeat(100_000)}` } }],
    [
      'an object whose members are left to patterns',
      Object.fromEntries(many(1).map((one, index) => [index, one])),
      { allOf: many({ patternProperties: {} }) },
    ],
    ['long equal texts', 'a'.repeat(100_000), { enum: many('b'.repeat(100_000)) }],
  ])('that repeat %s are given up', (_, value, schema) => {
    expect(satisfiesSchema(value, schema)).toBeUndefined();
  });

  test('that are long but plain are judged', () => {
    const texts = many('a'.repeat(1_000));
    expect(satisfiesSchema({ texts }, { properties: { texts: { items: { type: 'string', maxLength: 999 } } } })).toBe(
      false,
    );
    expect(satisfiesSchema({ texts }, { properties: { texts: { items: { type: 'string' } } } })).toBe(true);
  });
});
