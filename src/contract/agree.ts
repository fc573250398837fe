import { countCodePoints } from './code-points.ts';

/**
 * Whether two answers end in the same result (`slots-2`). A heuristic on purpose: it must give the same verdict in both
 * languages, so it uses ASCII classes, no locale and no floating point.
 */

const thousands = /^[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$/;
const shortAnswerCodePoints = 32;

/** A number with its fraction, exponent, thousands or date parts; or an option letter such as `(B)`, `**C**`, `D.` */
const lastResult =
  /(?<![A-Za-z0-9_])-?[0-9]+(?:[.,/:^][0-9]+|[eE][-+]?[0-9]+)*|(?<![A-Za-z0-9_'])[A-J](?=[).:*\]]|[ \t]*(?:\n|$))/g;

/** True or false where equality can be told, undefined where it cannot. */
export function agree(left: string, right: string): boolean | undefined {
  const [leftAnswer, rightAnswer] = [finalAnswer(left), finalAnswer(right)];
  return leftAnswer === undefined || rightAnswer === undefined ? undefined : leftAnswer === rightAnswer;
}

/** Last `\boxed{}`, else last number or option letter, else the whole text where it is short; else undefined. */
export function finalAnswer(text: string): string | undefined {
  const plain = text
    .normalize('NFKC')
    .replace(/\r\n?/g, '\n')
    .replace(/\u2212/g, '-');
  const boxed = lastBoxed(plain);
  if (boxed !== undefined) return canonical(boxed);
  const results = plain.match(lastResult);
  if (results !== null) return canonical(results.at(-1) ?? '');
  return countCodePoints(plain) <= shortAnswerCodePoints ? canonical(plain) : undefined;
}

/** Content of the last `\boxed{…}` whose braces close; one pass, since answers are hostile input. */
function lastBoxed(text: string): string | undefined {
  const open: { start: number; boxed: boolean }[] = [];
  let last: { start: number; end: number } | undefined;
  for (const { 0: brace, index } of text.matchAll(/(?:\\boxed)?\{|\}/g)) {
    if (brace !== '}') open.push({ start: index + brace.length, boxed: brace.length > 1 });
    else {
      const group = open.pop();
      if (group?.boxed && group.start > (last?.start ?? -1)) last = { start: group.start, end: index };
    }
  }
  return last && text.slice(last.start, last.end);
}

/** One spelling a value: no dollar signs, spaces or wrappers, numbers without separators and idle zeros. */
function canonical(answer: string): string | undefined {
  const bare = answer
    .replace(/\\text\{([^{}]*)\}/g, '$1')
    .replace(/\\[dt]frac/g, '\\frac')
    .replace(/\\[,;! %]|[$ \t\n*]/g, '')
    .replace(/^\(([^()]*)\)$/, '$1')
    .replace(/[.!]+$/, '')
    .toLowerCase();
  const digits = thousands.test(bare.replace(/^-/, '')) ? bare.replace(/,/g, '') : bare;
  const decimal = /^(-?)0*([0-9]+)(?:\.([0-9]*?)0*)?$/.exec(digits);
  if (decimal === null) return bare === '' ? undefined : bare;
  const [, sign = '', whole = '', fraction = ''] = decimal;
  const value = fraction === '' ? whole : `${whole}.${fraction}`;
  return value === '0' ? value : sign + value;
}
