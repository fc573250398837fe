import { LRUCache } from 'lru-cache';
import { type LlamaModel, LlamaText, SpecialTokensText, type Token, type Tokenizer } from 'node-llama-cpp';
import type { Segment } from '../contract/segment.ts';
import { EngineFailure } from './engine.ts';
import { tokenBytes } from './token-bytes.ts';

/** Token ids of trusted and untrusted text. The only place that decides what may become a control token. */
export interface ModelTokens {
  /** Neighbours of one kind are tokenised as one text, as in training. */
  ofSegments(segments: readonly Segment[]): Token[];
  /** Of texts that come again and again: tokenised once. */
  ofStatic(segments: readonly Segment[]): Token[];
  /** Of a rendered chat template: its own texts are markup, the messages' contents are not. */
  ofTemplate(rendered: LlamaText): Token[];
  ofText(text: string): Token[];
  /** Text of generated tokens; control tokens vanish unless `markup` is asked for. */
  toText(tokens: readonly Token[], before: readonly Token[], options?: { readonly markup: boolean }): string;
  /** Of one token, of which a character may have several; a control token's are its name's. */
  bytesOf(token: Token, before: readonly Token[]): Buffer;
  isEnd(token: Token): boolean;
  /** Matches the texts of all tokens that are markup: control tokens, and user-defined ones such as `<tool_call>`. */
  readonly special: RegExp;
  /** What the model says when its turn is over. */
  readonly endOfTurn: Token;
}

const keptStaticTexts = 1_024;

export function modelTokens(model: LlamaModel): ModelTokens {
  const { control, userDefined } = markupOf(model);
  const hidden = userDefined.length === 0 ? undefined : insideOf(userDefined);
  const plain = (text: string, options?: 'trimLeadingSpace'): Token[] =>
    splitInside(text, hidden).flatMap((piece, index) =>
      model.tokenize(piece, false, index > 0 ? 'trimLeadingSpace' : options),
    );
  const tokenize = (text: string, specialTokens?: boolean | 'builtin', options?: 'trimLeadingSpace'): Token[] => {
    if (text === '') return [];
    // The overload for 'builtin' is typed by a list of names; LlamaText passes only those.
    if (specialTokens === 'builtin') return model.tokenizer(text as 'BOS', 'builtin');
    return specialTokens === true ? model.tokenize(text, true, options) : plain(text, options);
  };
  // A tokenizer is a function with properties; only the function itself is used by LlamaText.
  const tokenizer = Object.assign(tokenize, model.tokenizer) as Tokenizer;
  const ofTemplate = (rendered: LlamaText) => rendered.tokenize(tokenizer);
  const ofSegments = (segments: readonly Segment[]) =>
    ofTemplate(LlamaText(segments.map(({ kind, text }) => (kind === 'markup' ? new SpecialTokensText(text) : text))));
  const known = new LRUCache<string, Token[]>({ max: keptStaticTexts });
  return {
    ofTemplate,
    ofSegments,
    ofStatic(segments) {
      const key = JSON.stringify(segments);
      const found = known.get(key) ?? ofSegments(segments);
      known.set(key, found);
      return found;
    },
    ofText: (text) => (text === '' ? [] : plain(text)),
    toText: (tokens, before, options) => model.detokenize(tokens, options?.markup ?? false, before),
    bytesOf: tokenBytes(model),
    isEnd: (token) => model.isEogToken(token),
    special: alternatives([...control, ...userDefined]),
    endOfTurn: endOfTurnOf(model),
  };
}

function endOfTurnOf(model: LlamaModel): Token {
  const token = model.tokens.eos ?? model.tokens.eot;
  if (token === null) throw new EngineFailure('unavailable', 'the weights file names no end-of-turn token');
  return token;
}

function markupOf(model: LlamaModel): { readonly control: readonly string[]; readonly userDefined: readonly string[] } {
  const control: string[] = [];
  const userDefined: string[] = [];
  for (const token of model.iterateAllTokens()) {
    const attributes = model.getTokenAttributes(token);
    if (!attributes.control && !attributes.userDefined) continue;
    const text = model.detokenize([token], true);
    if (attributes.control && text !== '') control.push(text);
    // User-defined runs of spaces are no markup and keep their token.
    else if (/^(<.+>|\[.+\])$/.test(text)) userDefined.push(text);
  }
  return { control, userDefined };
}

/** The longest first, for one may begin with another. */
function alternatives(texts: readonly string[]): RegExp {
  const sorted = texts.toSorted((one, other) => other.length - one.length).map(escaped);
  return new RegExp(sorted.length === 0 ? '(?!)' : sorted.join('|'), 'gu');
}

/**
 * Where to cut tokens such as `<tool_call>`, which the tokenizer of llama.cpp finds in any text, special tokens or not. In
 * somebody else's text they must stay words.
 */
const insideOf = (texts: readonly string[]): RegExp =>
  new RegExp(texts.map((text) => `${escaped(text[0])}(?=${escaped(text.slice(1))})`).join('|'), 'gu');

const escaped = (text: string | undefined): string => (text ?? '').replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');

/** Cuts the text behind the first character of every piece of markup, so that no token can span it. */
function splitInside(text: string, markup: RegExp | undefined): string[] {
  if (markup === undefined) return [text];
  const pieces: string[] = [];
  let start = 0;
  for (const match of text.matchAll(markup)) {
    const end = match.index + match[0].length;
    pieces.push(text.slice(start, end));
    start = end;
  }
  return [...pieces, text.slice(start)].filter((piece) => piece !== '');
}
