import { anyOf, literal } from './json-scalar-rules.ts';

/** GBNF for JSON numbers between bounds. What is written is read exactly, so no reader's rounding can cross a bound. */

export interface Bound {
  readonly value: number;
  /** The bound itself is not allowed. */
  readonly excluded: boolean;
}

export interface Bounds {
  readonly least: Bound | undefined;
  readonly most: Bound | undefined;
}

/** Significant decimal digits that every double keeps. */
const exactDigits = 15;

/** Without a bound on one side, whole numbers end where JSON's readers stop being exact. */
export function integerRule(least = -Number.MAX_SAFE_INTEGER, most = Number.MAX_SAFE_INTEGER): string {
  const parts: string[] = [];
  if (least < 0) parts.push(`"-" ${naturals(Math.max(1, -most), -least)}`);
  if (most >= 0) parts.push(naturals(Math.max(0, least), most));
  return anyOf(parts);
}

/** Fractions never end in 0. Undefined when no number is left, or a bound has more digits than can be kept. */
export function numberRule({ least, most }: Bounds): string | undefined {
  const zero = { value: 0, excluded: false };
  const parts: (string | undefined)[] = [];
  if (least === undefined || least.value < 0) {
    const smallest = most && most.value < 0 ? negated(most) : { value: 0, excluded: true };
    const magnitudes = magnitudesBetween(smallest, least && negated(least));
    parts.push(magnitudes && `"-" ${magnitudes}`);
  }
  if (most === undefined || most.value >= 0) {
    parts.push(magnitudesBetween(least && least.value > 0 ? least : zeroWithin(least, zero), most));
  }
  return oneOf(parts);
}

const zeroWithin = (least: Bound | undefined, zero: Bound): Bound => (least?.value === 0 ? least : zero);

const negated = ({ value, excluded }: Bound): Bound => ({ value: -value, excluded });

function magnitudesBetween(low: Bound, high: Bound | undefined): string | undefined {
  const [lowWhole, lowDigits] = decimal(low.value);
  const isLowWhole = lowDigits === '' && !low.excluded;
  const [highWhole, highDigits] = high ? decimal(high.value) : [Number.MAX_SAFE_INTEGER + 1, ''];
  const isHighWhole = high !== undefined && !(highDigits === '' && high.excluded);
  const noHigh = high?.excluded ?? false;
  const room = exactDigits - String(high ? highWhole : lowWhole).length;
  const wholeIf = (isAllowed: boolean, whole: number) => (isAllowed ? literal(String(whole)) : undefined);
  if (lowWhole === highWhole) {
    const fraction = between([lowDigits, low.excluded], [highDigits, noHigh], room);
    return oneOf([wholeIf(isLowWhole && isHighWhole, lowWhole), withFraction(lowWhole, fraction)]);
  }
  return oneOf([
    wholeIf(isLowWhole, lowWhole),
    withFraction(lowWhole, above(lowDigits, low.excluded || lowDigits === '', room)),
    lowWhole + 1 < highWhole ? `${naturals(lowWhole + 1, highWhole - 1)} ${anyFraction(room)}` : undefined,
    wholeIf(isHighWhole, highWhole),
    high && withFraction(highWhole, below(highDigits, noHigh, room, false)),
  ]);
}

/** Of a magnitude: the whole number, and the digits behind the point. */
function decimal(value: number): [number, string] {
  const text = String(Math.abs(value));
  const [mantissa = '', exponent = '0'] = text.split('e');
  if (Number(exponent) >= 0) {
    const [whole = '0', digits = ''] = mantissa.split('.');
    return [Number(exponent) > 0 ? Math.abs(value) : Number(whole), digits];
  }
  return [0, '0'.repeat(-Number(exponent) - 1) + mantissa.replace('.', '')];
}

const withFraction = (whole: number, digits: string | undefined): string | undefined =>
  digits === undefined ? undefined : `${literal(`${whole}.`)} ${digits}`;

const anyFraction = (room: number): string => (room > 0 ? `("." [0-9]{0,${room - 1}} [1-9])?` : '""');

/** More digits, the last of them not 0. */
function tail(room: number, isNeeded: boolean): string | undefined {
  if (room <= 0) return isNeeded ? undefined : '""';
  const digits = `[0-9]{0,${room - 1}} [1-9]`;
  return isNeeded ? digits : `(${digits})?`;
}

/** Digits of fractions from this one on; those of the bound do not end in 0. */
function above(bound: string, isExcluded: boolean, room: number): string | undefined {
  if (bound === '') return tail(room, isExcluded);
  if (room <= 0) return undefined;
  const first = Number(bound[0]);
  return oneOf([
    join(digit(first + 1, 9), tail(room - 1, false)),
    join(digit(first, first), above(bound.slice(1), isExcluded, room - 1)),
  ]);
}

/** @param canEnd the digits so far are a fraction already. */
function below(bound: string, isExcluded: boolean, room: number, canEnd: boolean): string | undefined {
  if (bound === '') return canEnd && !isExcluded ? '""' : undefined;
  const first = Number(bound[0]);
  return oneOf([
    canEnd ? '""' : undefined,
    ...(room <= 0
      ? []
      : [
          first > 0 ? join('"0"', tail(room - 1, true)) : undefined,
          join(digit(1, first - 1), tail(room - 1, false)),
          join(digit(first, first), below(bound.slice(1), isExcluded, room - 1, first > 0)),
        ]),
  ]);
}

type Edge = readonly [digits: string, excluded: boolean];

function between([low, noLow]: Edge, [high, noHigh]: Edge, room: number): string | undefined {
  if (low === '' && high === '') return undefined;
  if (low === '') return below(high, noHigh, room, false);
  if (high === '' || room <= 0) return undefined;
  const [first, last] = [Number(low[0]), Number(high[0])];
  const [lowRest, highRest] = [low.slice(1), high.slice(1)];
  if (first === last) {
    // What ends here is the lower bound itself, or both.
    const isAllowed = lowRest === '' && first > 0 && !noLow && !(highRest === '' && noHigh);
    const more = between([lowRest, noLow], [highRest, noHigh], room - 1);
    return join(digit(first, first), oneOf([isAllowed ? '""' : undefined, more]));
  }
  if (first > last) return undefined;
  return oneOf([
    join(digit(first, first), above(lowRest, noLow, room - 1)),
    join(digit(first + 1, last - 1), tail(room - 1, false)),
    join(digit(last, last), below(highRest, noHigh, room - 1, true)),
  ]);
}

const digit = (low: number, high: number): string | undefined =>
  low > high ? undefined : low === high ? `"${low}"` : `[${low}-${high}]`;

const join = (first: string | undefined, rest: string | undefined): string | undefined =>
  first === undefined || rest === undefined ? undefined : `${first} ${rest}`;

function oneOf(parts: readonly (string | undefined)[]): string | undefined {
  const possible = parts.filter((part) => part !== undefined);
  return possible.length === 0 ? undefined : anyOf(possible);
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

/** Values listed one by one at most. */
const mostListed = 1_000;
const largestDivisor = 32;

/**
 * Whole multiples: a list where there are few, else digits that keep count of the remainder.
 * Undefined where neither can be.
 */
export function multiplesRule(
  divisor: number,
  least: number | undefined,
  most: number | undefined,
  add: (expression: string) => string,
): string | undefined {
  if (least !== undefined && most !== undefined) {
    const first = Math.ceil(least / divisor);
    const count = Math.floor(most / divisor) - first + 1;
    if (count <= 0 || count > mostListed) return undefined;
    return anyOf(Array.from({ length: count }, (_, index) => literal(String((first + index) * divisor))));
  }
  if (divisor > largestDivisor || most !== undefined || (least !== undefined && least !== 0)) return undefined;
  const positive = positiveMultiples(divisor, add);
  return least === 0 ? anyOf(['"0"', positive]) : anyOf(['"0"', `"-"? ${positive}`]);
}

/** Built from the last digit backwards: what may follow a remainder when so many digits may still come. */
function positiveMultiples(divisor: number, add: (expression: string) => string): string {
  const remainders = Array.from({ length: divisor }, (_, remainder) => remainder);
  let next: readonly (string | undefined)[] = remainders.map((remainder) => (remainder === 0 ? '""' : undefined));
  const follow = (remainder: number, first: number) =>
    Array.from({ length: 10 - first }, (_, index) => index + first).flatMap((figure) => {
      const rest = next[(remainder * 10 + figure) % divisor];
      return rest === undefined ? [] : [`"${figure}" ${rest}`];
    });
  for (let left = 1; left < exactDigits; left++) {
    next = remainders.map((remainder) => {
      const parts = [...(remainder === 0 ? ['""'] : []), ...follow(remainder, 0)];
      return parts.length === 0 ? undefined : add(parts.join(' | '));
    });
  }
  return anyOf(follow(0, 1));
}
