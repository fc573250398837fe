/** GBNF for the texts of single JSON values. Everything here is an expression over the rules of `baseRules`. */

export const baseRules: readonly (readonly [string, string])[] = [
  ['hex', '[0-9a-fA-F]'],
  // Of escapes no half of a surrogate pair: it is no character by itself.
  ['char', String.raw`[^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" ([0-9a-cefA-CEF] hex{3} | [dD] [0-7] hex{2}))`],
  ['fraction', '"." [0-9]{0,14} [1-9]'],
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

/** Without a bound on one side, whole numbers end where JSON's readers stop being exact. */
export function integerRule(least = -Number.MAX_SAFE_INTEGER, most = Number.MAX_SAFE_INTEGER): string {
  const parts: string[] = [];
  if (least < 0) parts.push(`"-" ${naturals(Math.max(1, -most), -least)}`);
  if (most >= 0) parts.push(naturals(Math.max(0, least), most));
  return anyOf(parts);
}

/** Bounds are whole numbers. Fractions never end in 0, so they lie strictly between two of them. */
export function numberRule(least: number | undefined, most: number | undefined, excluded: readonly number[]): string {
  const low = least ?? -Number.MAX_SAFE_INTEGER;
  const high = most ?? Number.MAX_SAFE_INTEGER;
  const parts: string[] = [];
  const lowest = excluded.includes(low) ? low + 1 : low;
  const highest = excluded.includes(high) ? high - 1 : high;
  if (lowest <= highest) parts.push(integerRule(lowest, highest));
  if (low < 0) parts.push(`"-" ${naturals(Math.max(0, -high), -low - 1)} fraction`);
  if (high > 0) parts.push(`${naturals(Math.max(0, low), high - 1)} fraction`);
  return anyOf(parts);
}

/** Whole numbers from 0 on, without leading zeros. */
function naturals(least: number, most: number): string {
  const parts: string[] = [];
  for (let digits = String(least).length; digits <= String(most).length; digits++) {
    const first = Math.max(least, digits === 1 ? 0 : 10 ** (digits - 1));
    parts.push(digitsBetween(String(first), String(Math.min(most, 10 ** digits - 1))));
  }
  return anyOf(parts);
}

/** Both ends have the same number of digits. */
function digitsBetween(least: string, most: string): string {
  if (least === '') return '""';
  const [low = '', high = ''] = [least[0], most[0]];
  const [lowRest, highRest] = [least.slice(1), most.slice(1)];
  const any = lowRest === '' ? '' : ` [0-9]{${lowRest.length}}`;
  if (/^0*$/.test(lowRest) && /^9*$/.test(highRest)) return `[${low}-${high}]${any}`;
  if (low === high) return `"${low}" ${digitsBetween(lowRest, highRest)}`;
  const parts = [`"${low}" ${digitsBetween(lowRest, '9'.repeat(lowRest.length))}`];
  if (Number(high) - Number(low) > 1) parts.push(`[${Number(low) + 1}-${Number(high) - 1}]${any}`);
  parts.push(`"${high}" ${digitsBetween('0'.repeat(highRest.length), highRest)}`);
  return anyOf(parts);
}
