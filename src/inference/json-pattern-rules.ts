import { anyOf, literal } from './json-scalar-rules.ts';

/** Says what of a regular expression cannot be kept. */
export class PatternProblem extends Error {}

/** Text of a JSON string is checked as it is written, so what needs an escape there is spelled by it. */
const unescaped = String.raw`"\\\x00-\x1F\x7F`;
const escapedLetters = ['"', '\\', '\n', '\r', '\t', '\f'];
const anyLetter = 'char';
/** Copies of rules that repetitions may amount to. */
const mostCopies = 2_000;

/**
 * GBNF of JSON string contents that match a regular expression (ECMA-262, flag `u`), or of a part of them.
 * Knows letters, classes, groups, alternatives, repetitions, and anchors at both ends.
 * @throws PatternProblem for everything else, such as lookarounds, back references and word boundaries.
 */
export function patternRule(pattern: string): string {
  const reader = new PatternReader(pattern);
  return reader.whole();
}

interface Piece {
  readonly rule: string;
  readonly copies: number;
  readonly mayBeEmpty: boolean;
}

class PatternReader {
  readonly #letters: readonly string[];
  #at = 0;

  constructor(pattern: string) {
    this.#letters = [...pattern];
  }

  /** Without an anchor anything may stand before or behind. */
  whole(): string {
    const parts: string[] = [];
    do {
      const isStart = this.#skip('^');
      const { rule } = this.#sequence();
      const isEnd = this.#skip('$');
      parts.push(`${isStart ? '' : `${anyLetter}* `}${rule}${isEnd ? '' : ` ${anyLetter}*`}`);
    } while (this.#skip('|'));
    if (this.#at < this.#letters.length) throw new PatternProblem(`\`${this.#letters[this.#at]}\` where it stands`);
    return anyOf(parts);
  }

  #alternatives(): Piece {
    const parts = [this.#sequence()];
    while (this.#skip('|')) parts.push(this.#sequence());
    const mayBeEmpty = parts.some((part) => part.mayBeEmpty);
    return { rule: anyOf(parts.map(({ rule }) => rule)), copies: sum(parts), mayBeEmpty };
  }

  #sequence(): Piece {
    const parts: Piece[] = [];
    for (let next = this.#peek(); next !== undefined && !'|)$'.includes(next); next = this.#peek()) {
      parts.push(this.#repeated(this.#atom()));
    }
    const rule = parts.length === 0 ? '""' : parts.map((part) => part.rule).join(' ');
    return { rule, copies: sum(parts), mayBeEmpty: parts.every((part) => part.mayBeEmpty) };
  }

  #repeated(piece: Piece): Piece {
    const { rule, copies } = piece;
    const [least, most] = this.#repetition() ?? [];
    if (least === undefined) return piece;
    // Whether greedy or not, the same texts match.
    this.#skip('?');
    const times = Math.max(1, most ?? least);
    if (copies * times > mostCopies) throw new PatternProblem('repetitions that are too many');
    // Any of the copies may be the empty one: llama.cpp tries them all, which takes seconds a letter.
    if (piece.mayBeEmpty && times > 1) throw new PatternProblem('counted repetitions of what may be empty');
    const mayBeEmpty = piece.mayBeEmpty || least === 0;
    return { rule: `(${rule}){${least},${most ?? ''}}`, copies: copies * times, mayBeEmpty };
  }

  #repetition(): [number, number | undefined] | undefined {
    if (this.#skip('*')) return [0, undefined];
    if (this.#skip('+')) return [1, undefined];
    if (this.#skip('?')) return [0, 1];
    const found = /^\{(\d+)(,?)(\d*)\}/.exec(this.#letters.slice(this.#at, this.#at + 20).join(''));
    if (!found) return undefined;
    this.#at += found[0].length;
    const least = Number(found[1]);
    if (found[2] === '') return [least, least];
    return [least, found[3] === '' ? undefined : Number(found[3])];
  }

  #atom(): Piece {
    const letter = this.#take();
    if (letter === '(') return this.#group();
    return { rule: this.#single(letter), copies: 1, mayBeEmpty: false };
  }

  #single(letter: string): string {
    if (letter === '[') return this.#class();
    if (letter === '.') return outsideOf(String.raw`\u2028\u2029`, (escaped) => '\n\r'.includes(escaped));
    if (letter === '\\') return this.#escape();
    if ('^*+?{}]'.includes(letter)) throw new PatternProblem(`\`${letter}\` where it stands`);
    return spelled(letter);
  }

  #group(): Piece {
    if (this.#skip('?') && !this.#skip(':')) {
      const name = /^<[A-Za-z_]\w*>/.exec(this.#letters.slice(this.#at, this.#at + 64).join(''));
      if (!name) throw new PatternProblem('a lookaround');
      this.#at += name[0].length;
    }
    const inside = this.#alternatives();
    if (!this.#skip(')')) throw new PatternProblem('a group that is not closed, or an anchor inside one');
    return inside;
  }

  #escape(): string {
    const letter = this.#take();
    const set = sets.get(letter);
    if (set !== undefined) return classRule(set, false);
    const outside = sets.get(letter.toLowerCase());
    if (outside !== undefined) return classRule(outside, true);
    return spelled(this.#escaped(letter));
  }

  #escaped(letter: string): string {
    const control = controls.get(letter);
    if (control !== undefined) return control;
    const digits = letter === 'x' ? 2 : letter === 'u' ? 4 : 0;
    const code = this.#letters.slice(this.#at, this.#at + digits).join('');
    if (digits > 0 && code.length === digits && /^[0-9a-fA-F]+$/.test(code) && !/^d[89a-f]/i.test(code)) {
      this.#at += digits;
      return String.fromCharCode(Number.parseInt(code, 16));
    }
    if (/[A-Za-z0-9]/.test(letter)) throw new PatternProblem(`\`\\${letter}\``);
    return letter;
  }

  #class(): string {
    const isNegated = this.#skip('^');
    const ranges: Range[] = [];
    while (!this.#skip(']')) {
      const from = this.#classPart();
      if (typeof from !== 'string') ranges.push(...from);
      else if (this.#peek() === '-' && this.#letters[this.#at + 1] !== ']') {
        this.#take();
        const to = this.#classPart();
        if (typeof to !== 'string' || to < from) throw new PatternProblem('a class with an odd range');
        ranges.push([from, to]);
      } else ranges.push([from, from]);
    }
    return classRule(ranges, isNegated);
  }

  #classPart(): string | readonly Range[] {
    const letter = this.#take();
    if (letter !== '\\') return letter;
    const escaped = this.#take();
    if (escaped === 'b') throw new PatternProblem('`\\b`');
    return sets.get(escaped) ?? this.#escaped(escaped);
  }

  #peek(): string | undefined {
    return this.#letters[this.#at];
  }

  #take(): string {
    const letter = this.#letters[this.#at++];
    if (letter === undefined) throw new PatternProblem('an end in the middle');
    return letter;
  }

  #skip(letter: string): boolean {
    const isNext = this.#letters[this.#at] === letter;
    if (isNext) this.#at += 1;
    return isNext;
  }
}

type Range = readonly [from: string, to: string];

const sets: ReadonlyMap<string, readonly Range[]> = new Map([
  ['d', [['0', '9']]],
  // Of all white space, that of ASCII.
  ['s', [...' \t\n\r\f'].map((letter): Range => [letter, letter])],
  [
    'w',
    [
      ['a', 'z'],
      ['A', 'Z'],
      ['0', '9'],
      ['_', '_'],
    ],
  ],
]);
const controls: ReadonlyMap<string, string> = new Map([
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
  ['f', '\f'],
]);

const sum = (pieces: readonly Piece[]): number => pieces.reduce((total, { copies }) => total + copies, 0);

/** As it stands in a JSON string. */
const spelled = (letter: string): string => literal(JSON.stringify(letter).slice(1, -1));

function classRule(ranges: readonly Range[], isNegated: boolean): string {
  const isInside = (letter: string) => ranges.some(([from, to]) => from <= letter && letter <= to);
  const inside = ranges.map(([from, to]) => (from === to ? code(from) : `${code(from)}-${code(to)}`)).join('');
  // White space that is no ASCII is in no set here, so what is outside of `\s` keeps to letters that surely are none.
  if (isNegated) return outsideOf(String.raw`\u00A0\u1680\u2000-\u206F\u3000\uFEFF${inside}`, isInside);
  const special = escapedLetters.filter(isInside);
  const plain = ranges.flatMap(([from, to]) => withoutSpecial(from, to));
  const parts = [...(plain.length > 0 ? [`[${plain.join('')}]`] : []), ...special.map(spelled)];
  if (parts.length === 0) throw new PatternProblem('a class of nothing');
  return anyOf(parts);
}

/** @param set inside of a class of GBNF; what JSON escapes is asked one by one. */
const outsideOf = (set: string, isInside: (escaped: string) => boolean): string =>
  anyOf([`[^${unescaped}${set}]`, ...escapedLetters.filter((letter) => !isInside(letter)).map(spelled)]);

/** The range in pieces, between the letters that JSON escapes. */
function withoutSpecial(from: string, to: string): string[] {
  const [first = 0, last = 0] = [from.codePointAt(0), to.codePointAt(0)];
  const gaps = [0x22, 0x5c, 0x7f];
  const starts = [Math.max(first, 0x20), ...gaps.map((gap) => gap + 1).filter((start) => start > first)];
  return starts.flatMap((start) => {
    const end = Math.min(last, ...gaps.filter((gap) => gap >= start).map((gap) => gap - 1));
    if (start > end) return [];
    const [low, high] = [String.fromCodePoint(start), String.fromCodePoint(end)];
    return [start === end ? code(low) : `${code(low)}-${code(high)}`];
  });
}

/** Inside a class of GBNF. */
function code(letter: string): string {
  const point = letter.codePointAt(0) ?? 0;
  if (/[A-Za-z0-9]/.test(letter)) return letter;
  if (point <= 0xff) return `\\x${point.toString(16).toUpperCase().padStart(2, '0')}`;
  return point <= 0xffff ? `\\u${point.toString(16).padStart(4, '0')}` : `\\U${point.toString(16).padStart(8, '0')}`;
}
