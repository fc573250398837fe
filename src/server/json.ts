import { wellFormed } from '../contract/code-points.ts';
import { OrchestraError } from '../errors.ts';

/** Spellings of what a reviver has to look at; most bodies have none, and revivers are slow. */
const suspicious =
  /_proto_|\\u005f|\\u(?:0070|0072|006f|0074)|\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f]/i;

/**
 * Parses a request body. `__proto__` keys are dropped rather than refused (clients send tool schemas with anything in
 * them), and half surrogate pairs become U+FFFD, since one of them poisons every later turn of a conversation.
 * @throws OrchestraError invalid_request that says where the text stops being JSON.
 */
export function parseJson(text: string): unknown {
  const source = text.startsWith('\ufeff') ? text.slice(1) : text;
  if (isTooDeep(source)) {
    throw new OrchestraError('invalid_request', `The body is nested deeper than ${mostDepth} levels.`);
  }
  try {
    return suspicious.test(source) ? JSON.parse(source, tame) : JSON.parse(source);
  } catch (error) {
    const at = source.length <= mostSearchedLength ? failurePosition(source, error) : undefined;
    const where = at === undefined ? '' : at >= source.length ? ': it ends too early' : ` at position ${at}`;
    throw new OrchestraError('invalid_request', `The body is not valid JSON${where}.`);
  }
}

function tame(this: unknown, key: string, value: unknown): unknown {
  if (key === '__proto__') return undefined;
  return typeof value === 'string' ? wellFormed(value) : value;
}

const mostSearchedLength = 64 * 1024;

/**
 * The engine names a position in most messages but not for an unexpected token. That one is found by bisection: a
 * prefix whose only fault is that it ends is still good.
 */
function failurePosition(source: string, error: unknown): number {
  const named = positionIn(error, source.length);
  if (named !== undefined) return named;
  let good = 0;
  let bad = source.length;
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (isGoodPrefix(source.slice(0, middle))) good = middle;
    else bad = middle;
  }
  return bad - 1;
}

function isGoodPrefix(prefix: string): boolean {
  try {
    JSON.parse(prefix);
    return true;
  } catch (error) {
    const at = positionIn(error, prefix.length);
    return at !== undefined && at >= prefix.length;
  }
}

function positionIn(error: unknown, length: number): number | undefined {
  const message = error instanceof Error ? error.message : '';
  if (message.startsWith('Unexpected end')) return length;
  const digits = /position (\d+)/.exec(message)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** Far deeper than any tool schema, and shallow enough for recursive code such as JSON.stringify. */
const mostDepth = 1000;

function isTooDeep(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') at = endOfString(text, at);
    else if (character === '{' || character === '[') depth += 1;
    else if (character === '}' || character === ']') depth -= 1;
    if (depth > mostDepth) return true;
  }
  return false;
}

/** Position of the closing quote; long texts are skipped at the speed of a search. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let escapes = 0;
    while (text[at - 1 - escapes] === '\\') escapes += 1;
    if (escapes % 2 === 0) return at;
  }
  return text.length;
}
