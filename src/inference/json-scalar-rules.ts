/** GBNF for the texts of single JSON values. Everything here is an expression over the rules of `baseRules`. */

export const baseRules: readonly (readonly [string, string])[] = [
  ['hex', '[0-9a-fA-F]'],
  // Of escapes no half of a surrogate pair: it is no character by itself.
  ['char', String.raw`[^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" ([0-9a-cefA-CEF] hex{3} | [dD] [0-7] hex{2}))`],
  ['day', '"0" [1-9] | [12] [0-9]'],
  [
    'date',
    '[0-9]{4} "-" ("02-" day | ("04" | "06" | "09" | "11") "-" (day | "30") | ("01" | "03" | "05" | "07" | "08" | "10" | "12") "-" (day | "30" | "31"))',
  ],
  [
    'time',
    '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,6})? ("Z" | [+-] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])',
  ],
  ['octet', '[0-9] | [1-9] [0-9] | "1" [0-9]{2} | "2" [0-4] [0-9] | "25" [0-5]'],
  ['label', '[a-z0-9] ([a-z0-9-]{0,30} [a-z0-9])?'],
];

/** Formats whose every text we can spell; of some, such as e-mail, the usual part. */
export const stringFormats: ReadonlyMap<string, string> = new Map([
  ['date', 'date'],
  ['time', 'time'],
  ['date-time', 'date "T" time'],
  ['uuid', 'hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}'],
  ['ipv4', 'octet "." octet "." octet "." octet'],
  ['hostname', 'label ("." label){0,5}'],
  ['email', '[A-Za-z0-9_+-]{1,30} ("." [A-Za-z0-9_+-]{1,30})? "@" label ("." label){1,4}'],
]);

/** A text that stands for itself. */
export const literal = (text: string): string =>
  `"${text.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n').replace(/\r/g, '\\r')}"`;

export const anyOf = (expressions: readonly string[]): string => `(${expressions.join(' | ')})`;
