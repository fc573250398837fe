import fc from 'fast-check';
import { getLlama, type Llama, LlamaLogLevel } from 'node-llama-cpp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { JsonGrammar, jsonSchemaGrammar } from '../../src/inference/json-schema-grammar.ts';

let llama: Llama;
beforeAll(async () => {
  llama = await getLlama({ gpu: false, build: 'never', maxThreads: 1, logLevel: LlamaLogLevel.disabled });
});
afterAll(() => llama.dispose());

/** llama.cpp's own judgement; the library keeps it out of its types. */
interface Judge {
  _testText(text: string): boolean;
}

async function accepts(schema: unknown): Promise<(text: string) => boolean> {
  const grammar = (await llama.createGrammar({ grammar: jsonSchemaGrammar(schema) })) as unknown as Judge;
  return (text) => grammar._testText(text);
}

const person = {
  type: 'object',
  properties: { name: { type: 'string' }, age: { type: 'integer' }, mail: { type: 'string' } },
  required: ['name'],
};
const tree = {
  $ref: '#/$defs/node',
  $defs: { node: { type: 'object', properties: { next: { $ref: '#/$defs/node' } } } },
};

test.each([
  ['a type', { type: 'string' }, ['"a"', '""', '"\\n\\u00e9"', '"😀"'], ['a', '"', '"\n"', '"\\ud83d"', '1']],
  ['several types', { type: ['string', 'null'] }, ['"a"', 'null'], ['1']],
  ['no type', {}, ['1', '"a"', '[1, {"a":null}]', '{}'], ['', 'x', '[1,]']],
  ['true', true, ['false', '-1.5e3'], ['01']],
  ['an enum', { enum: ['a"b', 1, null, { c: [2] }] }, ['"a\\"b"', '1', 'null', '{"c":[2]}'], ['"a"', '2']],
  ['a constant', { const: 'yes' }, ['"yes"'], ['"no"']],
  ['anyOf', { anyOf: [{ type: 'integer' }, { type: 'boolean' }] }, ['1', 'true'], ['null', '"a"']],
  ['oneOf of different types', { oneOf: [{ type: 'array' }, { type: 'null' }] }, ['[]', 'null'], ['1']],
  ['allOf of one', { allOf: [{ type: 'null' }] }, ['null'], ['1']],
  [
    'optional properties',
    person,
    ['{"name":"a"}', '{"name": "a", "mail": "b"}', '{"name":"a","age":1}'],
    ['{}', '{"age":1}', '{"name":"a",}', '{"name":"a","x":1}'],
  ],
  [
    'only optional properties',
    { ...person, required: [] },
    ['{}', '{"mail":"b"}', '{"age":1,"mail":"b"}'],
    ['{,"age":1}', '{"age":1 "mail":"b"}'],
  ],
  ['a required property without schema', { type: 'object', required: ['x'] }, ['{"x":1}', '{"x":[null]}'], ['{}']],
  ['any object', { type: 'object' }, ['{}', '{"a":1,"b":[2]}'], ['[]', '{"a"}']],
  ['a map', { type: 'object', additionalProperties: { type: 'integer' } }, ['{}', '{"a":1}'], ['{"a":"b"}']],
  ['no properties at all', { type: 'object', additionalProperties: false }, ['{}'], ['{"a":1}']],
  ['an array', { type: 'array', items: { type: 'integer' } }, ['[]', '[1, 2]', '[1,2,3]'], ['[1 2]', '["a"]']],
  [
    'bounded arrays',
    { type: 'array', items: { type: 'null' }, minItems: 2, maxItems: 3 },
    ['[null,null]', '[null,null,null]'],
    ['[]', '[null]', '[null,null,null,null]'],
  ],
  [
    'a tuple',
    { type: 'array', prefixItems: [{ type: 'null' }, { type: 'boolean' }], items: false },
    ['[null,true]'],
    ['[null]', '[]'],
  ],
  ['lengths', { type: 'string', minLength: 2, maxLength: 3 }, ['"ab"', '"a\\n"', '"😀😀😀"'], ['"a"', '"abcd"']],
  ['references to itself', tree, ['{}', '{"next":{"next":{}}}'], ['{"next":1}']],
  ['definitions', { $ref: '#/definitions/a', definitions: { a: { type: 'null' } } }, ['null'], ['1']],
  [
    'a date',
    { type: 'string', format: 'date' },
    ['"2026-11-30"', '"2024-02-29"'],
    ['"2026-13-01"', '"2026-04-31"', '""'],
  ],
  [
    'a date and time',
    { type: 'string', format: 'date-time' },
    ['"2026-11-30T05:00:00Z"', '"2026-11-30T23:59:59.5+01:00"'],
    ['"2026-11-30"', '"2026-11-30T24:00:00Z"'],
  ],
  ['a uuid', { type: 'string', format: 'uuid' }, ['"123e4567-e89b-12d3-a456-426614174000"'], ['""', '"123e4567"']],
  ['an email', { type: 'string', format: 'email' }, ['"a.b@example.org"'], ['""', '"a@b"', '"a b@c.de"']],
  ['an address', { type: 'string', format: 'ipv4' }, ['"127.0.0.1"'], ['"256.0.0.1"', '"1.2.3"']],
  [
    'a boolean with words about it',
    { type: 'boolean', title: 'Is it?', description: 'yes or no' },
    ['true'],
    ['"true"'],
  ],
])('%s', async (_, schema, good, bad) => {
  const isAccepted = await accepts(schema);
  expect(good.filter((text) => !isAccepted(text))).toEqual([]);
  expect(bad.filter(isAccepted)).toEqual([]);
});

describe('ranges', () => {
  const bound = fc.integer({ min: -1_200, max: 1_200 });
  const range = fc.tuple(bound, bound).map(([one, other]) => [Math.min(one, other), Math.max(one, other)] as const);

  test('of whole numbers hold at both ends and nowhere else', async () => {
    await fc.assert(
      fc.asyncProperty(range, fc.array(bound, { minLength: 20, maxLength: 20 }), async ([least, most], values) => {
        const isAccepted = await accepts({ type: 'integer', minimum: least, maximum: most });
        for (const value of [...values, least, most, least - 1, most + 1]) {
          expect([value, isAccepted(String(value))]).toEqual([value, value >= least && value <= most]);
        }
        expect(isAccepted(`${least}.5`)).toBe(false);
      }),
      { numRuns: 60 },
    );
  });

  test('of numbers hold for fractions too', async () => {
    const exclusive = fc.record({ low: fc.boolean(), high: fc.boolean() });
    const tenths = fc.array(fc.integer({ min: -12_000, max: 12_000 }), { minLength: 20, maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(range, exclusive, tenths, async ([least, most], { low, high }, values) => {
        fc.pre(least < most);
        const isAccepted = await accepts({
          type: 'number',
          [low ? 'exclusiveMinimum' : 'minimum']: least,
          [high ? 'exclusiveMaximum' : 'maximum']: most,
        });
        for (const value of [...values.map((tenth) => tenth / 10), least, most, least - 0.5, most + 0.5]) {
          const isInside = (low ? value > least : value >= least) && (high ? value < most : value <= most);
          expect([value, isAccepted(String(value))]).toEqual([value, isInside]);
        }
      }),
      { numRuns: 60 },
    );
  });

  test('of numbers may begin and end anywhere', async () => {
    const hundredths = fc.integer({ min: -350, max: 350 });
    const edges = fc.tuple(hundredths, hundredths, fc.boolean(), fc.boolean());
    const values = fc.array(fc.integer({ min: -4_000, max: 4_000 }), { minLength: 30, maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(edges, values, async ([one, other, noLow, noHigh], thousandths) => {
        fc.pre(one < other);
        const [least, most] = [one / 100, other / 100];
        const isAccepted = await accepts({
          type: 'number',
          [noLow ? 'exclusiveMinimum' : 'minimum']: least,
          [noHigh ? 'exclusiveMaximum' : 'maximum']: most,
        });
        for (const value of [...thousandths.map((thousandth) => thousandth / 1_000), least, most]) {
          const isInside = (noLow ? value > least : value >= least) && (noHigh ? value < most : value <= most);
          expect([least, most, value, isAccepted(String(value))]).toEqual([least, most, value, isInside]);
        }
      }),
      { numRuns: 150 },
    );
  });

  test.each([
    [{ type: 'integer', minimum: 7 }, ['7', '10', '123456'], ['6', '-7', '07']],
    [{ type: 'integer', maximum: -3 }, ['-3', '-40'], ['-2', '0', '3']],
    [{ type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 2 }, ['1'], ['0', '2']],
    [{ type: 'integer', minimum: 0.5, exclusiveMaximum: 3 }, ['1', '2'], ['0', '3', '1.5']],
    [{ type: 'integer', exclusiveMaximum: -0.5 }, ['-1', '-20'], ['0', '1']],
    [{ type: 'number', exclusiveMinimum: 0 }, ['0.5', '1', '20.25'], ['0', '-0.5', '-1']],
    [{ type: 'number', maximum: 1e-7 }, ['0', '0.0000001', '-5', '0.00000005'], ['0.0000002', '1']],
    [{ type: 'number', exclusiveMaximum: 100 }, ['99.9', '-100'], ['100', '99.99999999999999999']],
    [{ type: 'number', minimum: 0, exclusiveMinimum: 0, maximum: 0.1 }, ['0.1', '0.05'], ['0', '0.2']],
    [{ type: 'integer', multipleOf: 5, minimum: -7, maximum: 12 }, ['-5', '0', '10'], ['-10', '1', '15', '05']],
    [{ type: 'integer', multipleOf: 7 }, ['0', '7', '-14', '700007'], ['1', '-8', '07', '-0']],
    [{ type: 'integer', multipleOf: 32, minimum: 0 }, ['0', '32', '1024'], ['16', '-32', '33']],
    [{ type: 'number', multipleOf: 1, maximum: 3.5 }, ['3', '-8'], ['3.5', '4', '1.5']],
    [{ type: 'number', minimum: 0, maximum: 1 }, ['0', '0.25', '1'], ['1.5', '-0.5', '2']],
  ])('%o', async (schema, good, bad) => {
    const isAccepted = await accepts(schema);
    expect(good.filter((text) => !isAccepted(text))).toEqual([]);
    expect(bad.filter(isAccepted)).toEqual([]);
  });
});

test.each([
  [{ type: 'string', pattern: '(?=a)b' }, '#: `pattern` with a lookaround'],
  [{ type: 'string', pattern: '(a)\\1' }, '#: `pattern` with `\\1`'],
  [{ type: 'string', pattern: '\\bword' }, '#: `pattern` with `\\b`'],
  [{ type: 'string', pattern: '(^a)b' }, '#: `pattern` with `^` where it stands'],
  [{ type: 'string', pattern: '[a' }, '#: `pattern` with an end in the middle'],
  [{ type: 'string', pattern: '(a{100}){100}' }, '#: `pattern` with repetitions that are too many'],
  [{ type: 'string', pattern: '((a?){0,8}){0,8}' }, '#: `pattern` with counted repetitions of what may be empty'],
  [{ type: 'string', pattern: '(a|b*c*){2}' }, '#: `pattern` with counted repetitions of what may be empty'],
  [{ type: 'string', pattern: 'a', maxLength: 3 }, '#: `maxLength` beside `pattern`'],
  [{ type: 'string', format: 'iri' }, '#: format `iri`'],
  [{ type: 'integer', multipleOf: 2, minimum: 3 }, '#: `multipleOf` with these bounds'],
  [{ type: 'integer', multipleOf: 64 }, '#: `multipleOf` with these bounds'],
  [{ type: 'number', multipleOf: 0.5 }, '#: `multipleOf` that is no whole number'],
  [{ type: 'integer', minimum: 2, maximum: 1 }, '#: bounds that leave no number'],
  [{ type: 'number', minimum: 0.5, exclusiveMaximum: 0.5 }, '#: bounds that leave no number'],
  [{ type: 'number', minimum: '0.5' }, '#: `minimum` that is no number'],
  [{ type: 'array', uniqueItems: true }, '#: `uniqueItems`'],
  [{ type: 'object', properties: { a: { not: {} } } }, '#/properties/a: `not` without `type`'],
  [{ type: 'object', patternProperties: {} }, '#: `patternProperties`'],
  [{ allOf: [{ type: 'string' }, { type: 'null' }] }, '#: `allOf` of several schemas'],
  [{ oneOf: [{ type: 'string' }, { type: 'string' }] }, '#: `oneOf` whose schemas'],
  [{ type: 'string', nullable: true }, '#: `nullable`'],
  [{ type: 'thing' }, '#: type `thing`'],
  [{ $ref: 'https://example.org/a' }, 'which is elsewhere'],
  [{ $ref: '#/$defs/a' }, 'which is not there'],
  [{ properties: {} }, '`properties` without `type`'],
  [{ enum: [] }, '`enum` without values'],
  [{ type: 'string', maxLength: 5_000 }, '`maxLength` that is no whole number up to 2000'],
  [7, 'this is no schema'],
  [{ type: 'object', required: 5 }, 'the JSON schema is malformed'],
  [{ $ref: '#/%' }, 'the JSON schema is malformed'],
])('%j is refused by name', (schema, message) => {
  expect(() => jsonSchemaGrammar(schema)).toThrow(message);
});

describe('a small schema that asks for a grammar without end', () => {
  const nested = (levels: number, around: (inside: unknown) => unknown): unknown =>
    levels === 0 ? { type: 'null' } : around(nested(levels - 1, around));

  test('names a type often, and it counts once', async () => {
    const isAccepted = await accepts(nested(40, (items) => ({ type: ['array', 'array', 'array'], items })));
    expect(isAccepted('[[[]]]')).toBe(true);
  });

  test.each([
    ['is nested too deeply', nested(65, (items) => ({ type: 'array', items })), 'it is nested too deeply'],
    ['is nested beyond the stack', nested(5_000, (option) => ({ anyOf: [option, {}] })), 'it is nested too deeply'],
    [
      'counts remainders everywhere',
      {
        type: 'array',
        prefixItems: Array.from({ length: 20 }, () => ({ type: 'integer', multipleOf: 31 })),
        items: false,
      },
      'it is too large',
    ],
  ])('is refused where it %s', (_, schema, problem) => {
    expect(() => jsonSchemaGrammar(schema)).toThrow(problem);
  });

  test('leaves room for the schemas after it', () => {
    const grammar = new JsonGrammar();
    const empty = grammar.withRoot('""');
    const multiples = { type: 'integer', multipleOf: 31 };
    expect(() => grammar.expression({ anyOf: Array.from({ length: 20 }, () => multiples) })).toThrow('it is too large');
    expect(grammar.withRoot('""')).toBe(empty);
    expect(grammar.expression({ type: 'null' })).toContain('null');
  });
});

describe('patterns', () => {
  test.each([
    ['^[a-z]+$'],
    ['ab?'],
    ['^(a|b0)*-?$'],
    ['^a|0$'],
    ['^(?:a{2}|b{1,2}|0{2,})$'],
    ['^(?<first>a)\\.b$'],
    ['^"[^"]$'],
    ['^\\\\?[\\\\"a-c]\\n?$'],
    ['^\\w\\d?$'],
    ['^é\\u0061$'],
    ['^[-a]+$'],
    [''],
    ['^$'],
    ['^a+?b*?$'],
    ['[!-~]b$'],
  ])('%s allows the texts that match, and no others', async (pattern) => {
    const isAccepted = await accepts({ type: 'string', pattern });
    const letters = fc.constantFrom(...'aaabbb00.-_"\\\né');
    fc.assert(
      fc.property(fc.string({ unit: letters, maxLength: 5 }), (text) => {
        expect([text, isAccepted(JSON.stringify(text))]).toEqual([text, new RegExp(pattern, 'u').test(text)]);
      }),
      { numRuns: 400 },
    );
  });

  test.each([
    ['^.$', ['é', '😀', '"', ' ', '\t', '\\'], ['\u2028', '\n', 'ab', '']],
    ['^\\S$', ['a', 'é', '-', '"', '\\'], [' ', '\u00a0', '\t', '\f', '']],
    ['^\\s$', [' ', '\t', '\n', '\f'], ['a', '']],
    ['^\\W$', ['-', ' '], ['a', '_', '0']],
    ['^[^a-c]$', ['d', 'é', ' ', '\n', '\\'], ['a', 'b', '']],
  ])('%s allows at most what matches', async (pattern, good, bad) => {
    const isAccepted = await accepts({ type: 'string', pattern });
    expect(good.filter((text) => !isAccepted(JSON.stringify(text)))).toEqual([]);
    expect(bad.filter((text) => isAccepted(JSON.stringify(text)))).toEqual([]);
  });
});
