import { type ControlledEvaluateInputItem, type LlamaContextSequence, type Token, TokenBias } from 'node-llama-cpp';
import type { DecodeTurns } from './decode-turns.ts';
import { EngineFailure } from './engine.ts';
import type { ModelTokens } from './tokens.ts';

export interface SequenceLimits {
  readonly contextTokens: number;
  readonly prefillChunkTokens: number;
}

type Chances = ReadonlyMap<Token, number>;

export interface Sampling {
  readonly temperature: number;
  readonly topP: number;
  readonly seed: number;
}

/**
 * Lifts the admissible tokens above all others and leaves single-precision logits five digits; the second, three
 * digits, is for models so sure of something else that the first does not suffice.
 */
const logitBiases = [100, 10_000];
/** Less likely tokens are never sampled: sorting a vocabulary of 49,152 costs a quarter of a small model's time. */
const sampledTopK = 1_000;
/** Keeps logarithms finite where a chance is too small for single precision. */
const smallestProbability = 1e-38;

/**
 * One KV-cache lane. Whatever it is asked, it first keeps the longest common prefix of what it holds, so callers
 * always give the whole token list and never think about the cache.
 */
export class Sequence {
  readonly #native: LlamaContextSequence;
  readonly #tokens: ModelTokens;
  readonly #turns: DecodeTurns;
  readonly #limits: SequenceLimits;
  #evaluatedPromptTokens = 0;
  #owner: string | undefined;
  /** The cache still holds what a private owner left for itself. */
  #isForeign = false;

  constructor(native: LlamaContextSequence, tokens: ModelTokens, turns: DecodeTurns, limits: SequenceLimits) {
    this.#native = native;
    this.#tokens = tokens;
    this.#turns = turns;
    this.#limits = limits;
  }

  /** Prompt tokens computed since the engine started; requests take the difference. */
  get evaluatedPromptTokens(): number {
    return this.#evaluatedPromptTokens;
  }

  /** From now on it works for this owner; undefined: for anybody. */
  assignTo(owner: string | undefined): void {
    this.#isForeign = this.#isClosedTo(owner);
    this.#owner = owner;
  }

  /** How many leading tokens are in the cache already; the last one always has to be computed again. */
  cachedPrefix(tokens: readonly Token[], owner: string | undefined = this.#owner): number {
    if (this.#isClosedTo(owner)) return 0;
    const held = this.#native.contextTokens;
    const longest = Math.min(held.length, tokens.length - 1);
    let length = 0;
    while (length < longest && held[length] === tokens[length]) length++;
    return length;
  }

  #isClosedTo(owner: string | undefined): boolean {
    return this.#isForeign || (this.#owner !== undefined && this.#owner !== owner);
  }

  /** Chances of the admissible tokens to follow, renormalised over them. */
  async probe(tokens: readonly Token[], admissible: readonly Token[], signal: AbortSignal): Promise<number[]> {
    const chances = await this.#chancesOf(admissible, tokens, signal);
    const weights = admissible.map((token) => Math.max(chances.get(token) ?? 0, smallestProbability));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return weights.map((weight) => weight / total);
  }

  /** Sampled tokens one by one, the end token included. Ends by itself only when the context is full. */
  async *sample(tokens: readonly Token[], sampling: Sampling, signal: AbortSignal): AsyncGenerator<Token, void> {
    const last = await this.#prefill(tokens, signal);
    const generator = this.#native.evaluate([last], { ...sampling, topK: sampledTopK, minP: 0, yieldEogToken: true });
    this.#evaluatedPromptTokens++;
    try {
      for (;;) {
        const { value, done } = await this.#turns.take(signal, () => generator.next());
        if (done) return;
        yield value;
        if (this.#native.nextTokenIndex >= this.#limits.contextTokens - 1) return;
      }
    } finally {
      await generator.return();
    }
  }

  /** Computes all but the last token, in chunks between which the signal is looked at; returns the last one. */
  async #prefill(tokens: readonly Token[], signal: AbortSignal): Promise<Token> {
    const last = tokens.at(-1);
    if (last === undefined) throw new Error('a sequence needs at least one token to continue from');
    const kept = this.cachedPrefix(tokens);
    // Never shifting: moved cells are not exact.
    await this.#turns.take(signal, () => this.#native.adaptStateToTokens(tokens.slice(0, kept), false));
    this.#isForeign = false;
    for (let start = kept; start < tokens.length - 1; start += this.#limits.prefillChunkTokens) {
      const chunk = tokens.slice(start, Math.min(start + this.#limits.prefillChunkTokens, tokens.length - 1));
      await this.#turns.take(signal, () => this.#native.controlledEvaluate(chunk));
      this.#evaluatedPromptTokens += chunk.length;
    }
    return last;
  }

  async #chancesOf(admissible: readonly Token[], tokens: readonly Token[], signal: AbortSignal): Promise<Chances> {
    // The library biases no end tokens, so they are compared in the whole vocabulary.
    if (admissible.some((token) => this.#tokens.isEnd(token))) return this.#nextTokenChances(tokens, signal, {});
    for (const logit of logitBiases) {
      const tokenBias = TokenBias.for(this.#native.model);
      for (const token of admissible) tokenBias.set(token, { logit });
      const chances = await this.#nextTokenChances(tokens, signal, { tokenBias, topK: admissible.length });
      if (admissible.every((token) => chances.has(token))) return chances;
    }
    throw new EngineFailure('crashed', 'the model gives no chance to some admissible token');
  }

  async #nextTokenChances(
    tokens: readonly Token[],
    signal: AbortSignal,
    masking: { readonly tokenBias?: TokenBias; readonly topK?: number },
  ): Promise<Chances> {
    const last = await this.#prefill(tokens, signal);
    const options = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: 0, ...masking };
    const input: ControlledEvaluateInputItem[] = [[last, { generateNext: { probabilities: true, options } }]];
    const [output] = await this.#turns.take(signal, () => this.#native.controlledEvaluate(input));
    this.#evaluatedPromptTokens++;
    return output?.next.probabilities ?? new Map<Token, number>();
  }
}
