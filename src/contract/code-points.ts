/** Cuts count code points, never UTF-16 units: both languages then cut alike, and no emoji is split. */

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;
const isPair = (text: string, index: number): boolean =>
  isHigh(text.charCodeAt(index)) && isLow(text.charCodeAt(index + 1));

export function countCodePoints(text: string): number {
  let count = 0;
  for (let index = 0; index < text.length; index += isPair(text, index) ? 2 : 1) count += 1;
  return count;
}

/** The last `limit` code points. */
export function keepTail(text: string, limit: number): string {
  let start = text.length;
  for (let kept = 0; kept < limit && start > 0; kept += 1) start -= start > 1 && isPair(text, start - 2) ? 2 : 1;
  return text.slice(start);
}

/** The first `limit` code points, of which the mark takes some when something was cut off. */
export function keepHead(text: string, limit: number, mark = ''): string {
  const whole = endOfHead(text, limit);
  if (whole === text.length) return text;
  const room = limit - countCodePoints(mark);
  return room < 0 ? text.slice(0, whole) : text.slice(0, endOfHead(text, room)) + mark;
}

function endOfHead(text: string, limit: number): number {
  let end = 0;
  for (let kept = 0; kept < limit && end < text.length; kept += 1) end += isPair(text, end) ? 2 : 1;
  return end;
}

/** Lone surrogates become U+FFFD: they are no text, and one of them can poison a whole conversation upstream. */
export const wellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, '\uFFFD');
