import type { ControlledEvaluateInputItem, LlamaContextSequence, SequenceEvaluateOptions, Token } from 'node-llama-cpp';
import { EngineFailure } from './engine.ts';
import { type Chances, chancesOf, type Mask, maskLogits, maskOf } from './masked-chances.ts';
import type { Rounds, Urgency, WorkKind } from './rounds.ts';
import type { Question } from './trie.ts';

export interface SequenceLimits {
  readonly contextTokens: number;
  readonly prefillChunkTokens: number;
}

export interface Sampling extends Pick<SequenceEvaluateOptions, 'grammarEvaluationState' | 'repeatPenalty'> {
  readonly temperature: number;
  readonly topP: number;
  readonly seed: number;
}

/** Somebody who wants a copy of the first `length` tokens as soon as they are there. */
interface Waypoint {
  readonly length: number;
  reached(isThere: boolean): void;
}

/** Less likely tokens are never sampled: sorting a vocabulary of 49,152 costs a quarter of a small model's time. */
const sampledTopK = 1_000;
const samplerLimits = { topK: sampledTopK, minP: 0, yieldEogToken: true };
/**
 * All tokens but those that together have a chance of 1 in 100,000: by so much chances renormalised over them are too
 * large. Over the 1,000 likeliest they were 3 % too large in the mean and 34 % at the most (SmolLM2).
 */
const wholeVocabulary = { topK: 0, topP: 0.999_99 };

const never = new AbortController().signal;
const anyTime: Urgency = { arrivedAtMs: 0, inProgress: false };

/**
 * One KV-cache lane. Whatever it is asked, it first keeps the longest common prefix of what it holds, so callers
 * always give the whole token list and never think about the cache.
 */
export class Sequence {
  readonly #native: LlamaContextSequence;
  readonly #lane: number;
  readonly #rounds: Rounds;
  readonly #limits: SequenceLimits;
  #urgency = anyTime;
  #evaluatedPromptTokens = 0;
  #owner: string | undefined;
  /** The cache still holds what a private owner left for itself. */
  #isForeign = false;
  /** What it is about to hold, while it reads a prompt. */
  #plan: readonly Token[] = [];
  #waypoints: Waypoint[] = [];

  /** @param lane in which order of creation `native` came. */
  constructor(native: LlamaContextSequence, lane: number, rounds: Rounds, limits: SequenceLimits) {
    this.#native = native;
    this.#lane = lane;
    this.#rounds = rounds;
    this.#limits = limits;
  }

  /** Prompt tokens computed since the engine started; requests take the difference. */
  get evaluatedPromptTokens(): number {
    return this.#evaluatedPromptTokens;
  }

  /** From now on it works for this owner; undefined: for anybody. */
  assignTo(owner: string | undefined, urgency: Urgency): void {
    this.#isForeign = this.#isClosedTo(owner);
    this.#owner = owner;
    this.#urgency = urgency;
  }

  /** Whoever needs the beginning of this prompt too may wait for it from now on. */
  claim(prompt: readonly Token[]): void {
    this.#plan = prompt;
  }

  /** Whoever still waits for its prompt looks for another source. */
  release(): void {
    this.#plan = [];
    this.#pass(0);
  }

  /** How many leading tokens are in the cache already; the last one always has to be computed again. */
  cachedPrefix(tokens: readonly Token[], owner: string | undefined = this.#owner): number {
    if (this.#isClosedTo(owner)) return 0;
    return commonPrefix(this.#native.contextTokens, tokens, tokens.length - 1);
  }

  /** How many leading tokens it holds or is about to, for a copy; nothing of a private owner's. */
  sharedPrefix(tokens: readonly Token[]): number {
    if (this.#isClosedTo(undefined) || this.#owner !== undefined) return 0;
    const held = commonPrefix(this.#native.contextTokens, tokens, tokens.length - 1);
    return Math.max(held, commonPrefix(this.#plan, tokens, tokens.length - 1));
  }

  /** What anybody may use of it. */
  get publicTokens(): readonly Token[] {
    return this.#isClosedTo(undefined) ? [] : this.#native.contextTokens;
  }

  get heldTokens(): number {
    return this.#native.nextTokenIndex;
  }

  #isClosedTo(owner: string | undefined): boolean {
    return this.#isForeign || (this.#owner !== undefined && this.#owner !== owner);
  }

  /** Resolves when it holds so many of its prompt's tokens; false: it gave up before. */
  reach(length: number): Promise<boolean> {
    if (this.#plan.length === 0 || this.heldTokens >= length) return Promise.resolve(true);
    return new Promise((reached) => {
      this.#waypoints.push({ length, reached });
    });
  }

  /** Writes what it holds to a file, and says what that was; undefined when it is not for everybody. */
  save(path: string): Promise<readonly Token[] | undefined> {
    return this.#take('edit', never, 0, async () => {
      // Asked now and not before the wait: the sequence may have got another owner meanwhile.
      if (this.#owner !== undefined || this.#isForeign) return undefined;
      const tokens = this.#native.contextTokens;
      await this.#native.saveStateToFile(path);
      return tokens;
    });
  }

  /** Holds what the file holds; nothing when it cannot be read. */
  load(path: string, signal: AbortSignal): Promise<void> {
    return this.#take('edit', signal, 0, async () => {
      await this.#native.clearHistory();
      // The file is our own: same process, same model, same cache types.
      await this.#native.loadStateFromFile(path, { acceptRisk: true });
      this.#isForeign = false;
    });
  }

  /** For each question the chances of its admissible tokens, renormalised over them. */
  async ask(tokens: readonly Token[], questions: readonly Question[], signal: AbortSignal): Promise<number[][]> {
    const answers = new Map<Question, number[]>();
    for (const logit of maskLogits) {
      const open = questions.filter((question) => !answers.has(question));
      if (open.length === 0) break;
      // Questions are made of this model's own token ids.
      const masks = new Map(
        open.map(({ depth, admissible }) => [depth - 1, maskOf(this.#native.model, admissible as Token[], logit)]),
      );
      const chances = await this.#evaluateMasked(tokens, masks, signal);
      for (const question of open) {
        const at = question.depth - 1;
        const mask = masks.get(at);
        const answer = mask && chancesOf(question.admissible as Token[], mask, chances.get(at) ?? new Map());
        if (answer) answers.set(question, answer);
      }
    }
    return questions.map((question) => {
      const answer = answers.get(question);
      if (!answer) throw new EngineFailure('crashed', 'the model gives no chance to some admissible token');
      return answer;
    });
  }

  /** Sampled tokens one by one, the end token included. Ends by itself only when the context is full. */
  sample(tokens: readonly Token[], sampling: Sampling, signal: AbortSignal): AsyncGenerator<Token, void> {
    const begin = (rest: Token[]) => this.#native.evaluate(rest, { ...sampling, ...samplerLimits });
    return this.#write(tokens, begin, () => undefined, signal);
  }

  /**
   * The same, each with the chances among which it was chosen, likeliest first. With `pick`, which has to heed `sampling`
   * itself, they are the model's own.
   */
  async *sampleOpenly(
    tokens: readonly Token[],
    sampling: Sampling,
    pick: ((chances: Chances) => Token) | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<{ readonly token: Token; readonly chances: Chances }, void> {
    const options = { ...sampling, ...samplerLimits, ...(pick && { ...wholeVocabulary, temperature: 1 }) };
    const begin = (rest: Token[]) => this.#native.evaluateWithMetadata(rest, { probabilities: true }, options);
    let picked: Token | undefined;
    for await (const { token, probabilities } of this.#write(tokens, begin, () => picked, signal)) {
      picked = pick?.(probabilities);
      yield { token: picked ?? token, chances: probabilities };
    }
  }

  async *#write<Written>(
    tokens: readonly Token[],
    begin: (rest: Token[]) => AsyncGenerator<Written, unknown, Token | undefined>,
    replacement: () => Token | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<Written, void> {
    const rest = await this.#read(tokens, tokens.length - 1, signal);
    const generator = begin([...rest]);
    let pending = rest.length;
    try {
      for (;;) {
        const kind = pending > 1 ? 'prefill' : 'decode';
        const { value, done } = await this.#take(kind, signal, pending, () => generator.next(replacement()));
        if (pending > 0) this.#finishPrompt(pending);
        pending = 0;
        if (done) return;
        yield value;
        if (this.heldTokens >= this.#limits.contextTokens - 1) return;
      }
    } finally {
      await generator.return(undefined);
    }
  }

  async #evaluateMasked(tokens: readonly Token[], masks: ReadonlyMap<number, Mask>, signal: AbortSignal) {
    const chances = new Map<number, Chances>();
    const first = Math.min(...masks.keys());
    let position = await this.#align(tokens, first, signal);
    while (position < tokens.length) {
      const end = this.#stopAfter(position, tokens.length);
      const input: ControlledEvaluateInputItem[] = tokens.slice(position, end).map((token, index) => {
        const options = masks.get(position + index);
        return options === undefined ? token : [token, { generateNext: { probabilities: true, options } }];
      });
      const outputs = await this.#take('prefill', signal, input.length, () => this.#native.controlledEvaluate(input));
      outputs.forEach((output, index) => {
        if (output?.next.probabilities) chances.set(position + index, output.next.probabilities);
      });
      this.#evaluatedPromptTokens += input.length;
      position = end;
      this.#pass(position);
    }
    return chances;
  }

  /** Computes all but the last piece of a prompt, in chunks between which the signal is looked at; returns that piece. */
  async #read(tokens: readonly Token[], mostKept: number, signal: AbortSignal): Promise<readonly Token[]> {
    let position = await this.#align(tokens, mostKept, signal);
    for (;;) {
      const end = this.#stopAfter(position, tokens.length);
      const chunk = tokens.slice(position, end);
      if (end === tokens.length) return chunk;
      await this.#take('prefill', signal, chunk.length, () => this.#native.controlledEvaluate(chunk));
      this.#evaluatedPromptTokens += chunk.length;
      position = end;
      this.#pass(position);
    }
  }

  /** Erases what does not belong to `tokens`; returns how many it keeps. */
  async #align(tokens: readonly Token[], mostKept: number, signal: AbortSignal): Promise<number> {
    if (tokens.length === 0) throw new Error('a sequence needs at least one token to continue from');
    this.#plan = tokens;
    const kept = Math.min(this.cachedPrefix(tokens), mostKept);
    // Never shifting: moved cells are not exact.
    if (kept < this.heldTokens) {
      await this.#take('edit', signal, 0, () => this.#native.adaptStateToTokens(tokens.slice(0, kept), false));
    }
    this.#isForeign = false;
    this.#pass(kept);
    return kept;
  }

  /** A chunk on, or where somebody waits for a copy. */
  #stopAfter(position: number, end: number): number {
    const stops = this.#waypoints.map(({ length }) => length).filter((length) => length > position);
    return Math.min(position + this.#limits.prefillChunkTokens, end, ...stops);
  }

  #finishPrompt(tokens: number): void {
    this.#evaluatedPromptTokens += tokens;
    this.#plan = [];
    this.#pass(Number.POSITIVE_INFINITY);
  }

  /** Tells those who waited for this place, and everybody when there is no plan any more. */
  #pass(position: number): void {
    const waiting = this.#waypoints;
    const isThere = ({ length }: Waypoint) => length <= position;
    this.#waypoints = this.#plan.length === 0 ? [] : waiting.filter((waypoint) => !isThere(waypoint));
    for (const waypoint of waiting) {
      if (!this.#waypoints.includes(waypoint)) waypoint.reached(isThere(waypoint));
    }
  }

  #take<Result>(kind: WorkKind, signal: AbortSignal, tokens: number, run: () => Promise<Result>): Promise<Result> {
    return this.#rounds.take({ kind, lane: this.#lane, tokens, urgency: this.#urgency, signal, run });
  }
}

/** @param most to compare. */
export function commonPrefix(one: readonly Token[], other: readonly Token[], most = other.length): number {
  const longest = Math.min(one.length, most);
  let length = 0;
  while (length < longest && one[length] === other[length]) length++;
  return length;
}
