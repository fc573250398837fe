/** Turns tokens into text as they come, and cuts that text where a stop string begins. */

export interface TokenDecoder<Token> {
  /** The text that is certain after this token; empty while a character is incomplete. */
  push(token: Token): string;
  /** What is left at the end; an incomplete character becomes U+FFFD. */
  flush(): string;
}

const replacementCharacter = '\uFFFD';
/** A UTF-8 character has at most four bytes, so it ends at the latest with the fourth token. */
const longestCharacterTokens = 4;

/** `detokenize` gets the tokens to turn into text, and those before them for models that care about spaces. */
export function tokenDecoder<Token>(
  detokenize: (tokens: readonly Token[], before: readonly Token[]) => string,
): TokenDecoder<Token> {
  let before: readonly Token[] = [];
  let pending: Token[] = [];
  const take = (text: string): string => {
    before = pending;
    pending = [];
    return text;
  };
  return {
    push(token) {
      pending.push(token);
      const text = detokenize(pending, before);
      const incomplete = text.endsWith(replacementCharacter) && pending.length < longestCharacterTokens;
      return incomplete ? '' : take(text);
    },
    flush: () => (pending.length === 0 ? '' : take(detokenize(pending, before))),
  };
}

export interface StopFilter {
  /** `text` may be sent on; `stopped` says that a stop string was met and nothing may follow. */
  push(text: string): { readonly text: string; readonly stopped: boolean };
  /** Text held back for a stop string that never came. */
  flush(): string;
}

export function stopFilter(stops: readonly string[]): StopFilter {
  let held = '';
  return {
    push(text) {
      held += text;
      const found = stops.map((stop) => held.indexOf(stop)).filter((index) => index >= 0);
      if (found.length > 0) {
        const before = held.slice(0, Math.min(...found));
        held = '';
        return { text: before, stopped: true };
      }
      const keep = Math.max(0, ...stops.map((stop) => overlap(held, stop)));
      const certain = held.slice(0, held.length - keep);
      held = held.slice(held.length - keep);
      return { text: certain, stopped: false };
    },
    flush() {
      const rest = held;
      held = '';
      return rest;
    },
  };
}

/** Length of the longest end of `text` that a stop string begins with. */
export function overlap(text: string, stop: string): number {
  for (let length = Math.min(text.length, stop.length - 1); length > 0; length--) {
    if (text.endsWith(stop.slice(0, length))) return length;
  }
  return 0;
}
