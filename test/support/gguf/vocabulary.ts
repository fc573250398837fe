/**
 * A byte-level BPE vocabulary of the kind Qwen models have: 256 byte tokens, one merged token a word, control tokens
 * that only markup may become, and user-defined tokens that the tokenizer itself would find in any text.
 */

export interface Vocabulary {
  /** As stored in the file: bytes in GPT-2's letters. */
  readonly tokens: readonly string[];
  readonly types: readonly number[];
  readonly merges: readonly string[];
  /** Id of the single token with this readable text, or of a byte written as `<0xF0>`; throws when there is none. */
  id(text: string): number;
}

export const endOfTurn = '<|im_end|>';
export const controlTokens = ['<|endoftext|>', '<|im_start|>', endOfTurn];
export const userDefinedTokens = ['<think>', '</think>', '<tool_call>', '</tool_call>'];

const tokenTypes = { normal: 1, control: 3, userDefined: 4 };

/** One token for each word and each of its beginnings. */
export function buildVocabulary(words: readonly string[]): Vocabulary {
  const bytes = Array.from({ length: 256 }, (_, byte) => byteLetter(byte));
  const merges: string[] = [];
  const merged: string[] = [];
  for (const word of words) {
    const letters = [...Buffer.from(word, 'utf8')].map(byteLetter);
    for (let end = 1; end < letters.length; end++) {
      const left = letters.slice(0, end).join('');
      const whole = left + (letters[end] ?? '');
      if (merged.includes(whole)) continue;
      merges.push(`${left} ${letters[end]}`);
      merged.push(whole);
    }
  }
  const normal = [...bytes, ...merged];
  const tokens = [...normal, ...controlTokens, ...userDefinedTokens];
  const types = [
    ...normal.map(() => tokenTypes.normal),
    ...controlTokens.map(() => tokenTypes.control),
    ...userDefinedTokens.map(() => tokenTypes.userDefined),
  ];
  const id = (text: string): number => {
    const byte = /^<0x([0-9A-F]{2})>$/.exec(text)?.[1];
    if (byte !== undefined) return Number.parseInt(byte, 16);
    const special = [...controlTokens, ...userDefinedTokens].includes(text);
    const index = tokens.indexOf(special ? text : readableToStored(text));
    if (index < 0) throw new Error(`the vocabulary has no single token for ${JSON.stringify(text)}`);
    return index;
  };
  return { tokens, types, merges, id };
}

const readableToStored = (text: string): string => [...Buffer.from(text, 'utf8')].map(byteLetter).join('');

/** GPT-2's rule: printable bytes stand for themselves, the others for letters from 256 on, in byte order. */
function byteLetter(byte: number): string {
  return isPrintable(byte) ? String.fromCodePoint(byte) : String.fromCodePoint(256 + unprintableBefore(byte));
}

const isPrintable = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;

const unprintableBefore = (byte: number): number =>
  Array.from({ length: byte }, (_, lower) => lower).filter((lower) => !isPrintable(lower)).length;
