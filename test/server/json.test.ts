import fc from 'fast-check';
import { expect, test } from 'vitest';
import { OrchestraError } from '../../src/errors.ts';
import { parseJson } from '../../src/server/json.ts';
import { canonicalUrl } from '../../src/server/urls.ts';

test('any JSON of well-formed text is read as it was written', () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
      fc.pre(!JSON.stringify(value).includes('__proto__') && !/\\ud/.test(JSON.stringify(value)));
      expect(parseJson(JSON.stringify(value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('escaped in ASCII, text comes back whole', () => {
  const escaped = (text: string) =>
    `"${[...Array(text.length).keys()].map((at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')}"`;
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      expect(parseJson(escaped(text))).toBe(text);
    }),
  );
});

test('a stray character is found wherever it stands', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 99 }), { minLength: 1 }), fc.nat(), (numbers, pick) => {
      const text = JSON.stringify(numbers.map((number) => ({ number })));
      const colons = [...text.matchAll(/:/g)].map(({ index }) => index + 1);
      const at = colons[pick % colons.length] ?? 0;
      const error = thrownBy(() => parseJson(`${text.slice(0, at)}x${text.slice(at)}`));
      expect(error).toMatchObject({ message: `The body is not valid JSON at position ${at}.` });
    }),
  );
});

test('a text that was cut off ends too early', () => {
  fc.assert(
    fc.property(fc.nat(), (pick) => {
      const text = '{"model":"orchestra","messages":[{"role":"user","content":"hi \\u00e9"}],"n":1.5e3,"stream":true}';
      const error = thrownBy(() => parseJson(text.slice(0, 1 + (pick % (text.length - 1)))));
      expect(error).toMatchObject({ message: 'The body is not valid JSON: it ends too early.' });
    }),
  );
});

test('__proto__ is dropped at any depth, in any spelling', () => {
  const read = parseJson('{"a":[{"__proto__":{"x":1}}],"__prot\\u006f__":2,"b":3}');
  expect(read).toEqual({ a: [{}], b: 3 });
  expect(({} as Record<string, unknown>)['x']).toBeUndefined();
});

test('nesting beyond reason is refused, brackets inside text are not nesting', () => {
  const nested = (depth: number) => `${'[{"a":'.repeat(depth / 2)}1${'}]'.repeat(depth / 2)}`;
  expect(parseJson(nested(1000))).toBeInstanceOf(Array);
  for (const depth of [1002, 400_000]) expect(() => parseJson(nested(depth))).toThrow(/deeper than 1000/);
  const text = `${'['.repeat(5000)}\\"${'{'.repeat(5000)}\\`;
  expect(parseJson(JSON.stringify({ text }))).toEqual({ text });
});

test('an address that is canonical stays so, and its query is left alone', () => {
  const path = fc.array(fc.constantFrom('v1', 'models', 'chat', 'completions', '', 'docs', 'healthz', 'a%2Fb'));
  fc.assert(
    fc.property(path, (segments) => {
      const once = canonicalUrl(`/${segments.join('/')}?q=//v1/`);
      expect(once.endsWith('?q=//v1/')).toBe(true);
      expect(canonicalUrl(once)).toBe(once);
    }),
  );
});

function thrownBy(act: () => unknown): OrchestraError {
  try {
    act();
  } catch (error) {
    if (error instanceof OrchestraError) return error;
  }
  throw new Error('nothing was thrown');
}
