import type { Token } from 'node-llama-cpp';
import type { TokenChance, TokenLogprob } from '../contract/chat.ts';
import type { Chances } from './masked-chances.ts';
import type { Sampling, Sequence } from './sequence.ts';
import { beforeTemperature, picker } from './token-chances.ts';
import type { ModelTokens } from './tokens.ts';

/** Stands for chances too small for single precision, as with OpenAI. */
const impossible = -9999;

/**
 * Samples and keeps what the model thought of each token, until its text is sent: natural logs of the model's own chances,
 * whatever temperature and top-p are. Under a grammar they are chances among what it and top-p allow.
 */
export class LogprobRecorder {
  readonly #tokens: ModelTokens;
  readonly #top: number;
  #waiting: { readonly start: number; readonly end: number; readonly logprob: TokenLogprob }[] = [];
  #end = 0;
  #before: readonly Token[] = [];
  #last: TokenLogprob | undefined;

  /** @param top how many alternatives to show beside each token. */
  constructor(top: number, tokens: ModelTokens) {
    this.#top = top;
    this.#tokens = tokens;
  }

  async *sample(
    sequence: Sequence,
    prompt: readonly Token[],
    sampling: Sampling,
    signal: AbortSignal,
  ): AsyncGenerator<Token, void> {
    const isFree = sampling.grammarEvaluationState === undefined;
    const pick = isFree ? picker(sampling) : undefined;
    for await (const { token, chances } of sequence.sampleOpenly(prompt, sampling, pick, signal)) {
      this.#last = this.#logprobOf(token, isFree ? chances : beforeTemperature(chances, sampling.temperature));
      this.#before = [token];
      yield token;
    }
  }

  /** The last token's text ends here in the text written so far. */
  endsAt(end: number): void {
    if (this.#last) this.#waiting.push({ start: this.#end, end, logprob: this.#last });
    this.#end = end;
  }

  /** So many characters from there on are no text: tokens within them are forgotten, those behind move up. */
  skip(from: number, length: number): void {
    if (length === 0) return;
    const to = from + length;
    const moved = (at: number) => (at <= from ? at : Math.max(from, at - length));
    this.#waiting = this.#waiting
      .filter(({ start, end }) => end <= from || start < from || start >= to || end > to)
      .map(({ start, end, logprob }) => ({ start: moved(start), end: moved(end), logprob }));
    this.#end = moved(this.#end);
  }

  /** Of the tokens whose text has been sent to its end by now. */
  takeUntil(sent: number): TokenLogprob[] {
    const isHeld = this.#waiting.findIndex(({ end }) => end > sent);
    const count = isHeld < 0 ? this.#waiting.length : isHeld;
    return this.#waiting.splice(0, count).map(({ logprob }) => logprob);
  }

  #logprobOf(token: Token, chances: Chances): TokenLogprob {
    const alternatives: TokenChance[] = [];
    for (const [other, chance] of chances) {
      if (alternatives.length >= this.#top || chance === 0) break;
      alternatives.push(this.#chanceOf(other, chance));
    }
    return { ...this.#chanceOf(token, chances.get(token) ?? 0), top_logprobs: alternatives };
  }

  #chanceOf(token: Token, chance: number): TokenChance {
    const bytes = this.#tokens.bytesOf(token, this.#before);
    return { token: bytes.toString('utf8'), logprob: chance > 0 ? Math.log(chance) : impossible, bytes: [...bytes] };
  }
}
