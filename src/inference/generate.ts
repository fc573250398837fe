import type { LlamaGrammarEvaluationState, Token } from 'node-llama-cpp';
import type { GenerateEvent, GenerateRequest } from './engine.ts';
import { LogprobRecorder } from './logprobs.ts';
import type { Sequence } from './sequence.ts';
import { stopFilter, tokenDecoder } from './text-stream.ts';
import type { ModelTokens } from './tokens.ts';

/** Text as it is written; the last event says why it ended. */
export async function* generateText(
  request: GenerateRequest,
  prompt: readonly Token[],
  sequence: Sequence,
  tokens: ModelTokens,
  signal: AbortSignal,
  grammarEvaluationState: LlamaGrammarEvaluationState | undefined,
): AsyncGenerator<GenerateEvent> {
  const cachedTokens = sequence.cachedPrefix(prompt);
  const { temperature, topP, seed, topLogprobs } = request;
  const sampling = { temperature, topP, seed, ...(grammarEvaluationState && { grammarEvaluationState }) };
  const recorder = topLogprobs === undefined ? undefined : new LogprobRecorder(topLogprobs, tokens);
  const writer = new TextWriter(request.stop, tokens, recorder);
  let outputTokens = 0;
  let ended = false;
  const written = recorder
    ? recorder.sample(sequence, prompt, sampling, signal)
    : sequence.sample(prompt, sampling, signal);
  for await (const token of written) {
    outputTokens++;
    ended = tokens.isEnd(token);
    if (ended) break;
    yield* writer.push(token);
    if (writer.stopped || outputTokens >= request.maxTokens) break;
  }
  yield* writer.flush();
  const usage = { promptTokens: prompt.length - cachedTokens, cachedTokens, outputTokens };
  yield { type: 'end', finishReason: ended || writer.stopped ? 'stop' : 'length', usage };
}

/** Tokens in, text events out, up to a stop string. */
class TextWriter {
  readonly #decoder;
  readonly #filter;
  readonly #recorder: LogprobRecorder | undefined;
  #writtenLength = 0;
  #sentLength = 0;
  #stopped = false;

  constructor(stops: readonly string[], tokens: ModelTokens, recorder: LogprobRecorder | undefined) {
    this.#decoder = tokenDecoder<Token>((ids, before) => tokens.toText(ids, before));
    this.#filter = stopFilter(stops);
    this.#recorder = recorder;
  }

  /** A stop string was met, and nothing follows. */
  get stopped(): boolean {
    return this.#stopped;
  }

  push(token: Token): GenerateEvent[] {
    const text = this.#decoder.push(token);
    this.#writtenLength += text.length;
    this.#recorder?.endsAt(this.#writtenLength);
    return this.#send(this.#filtered(text));
  }

  flush(): GenerateEvent[] {
    if (this.#stopped) return [];
    const text = this.#filtered(this.#decoder.flush());
    return this.#send(text + this.#filter.flush());
  }

  #filtered(written: string): string {
    const { text, stopped } = this.#filter.push(written);
    this.#stopped = stopped;
    return text;
  }

  #send(text: string): GenerateEvent[] {
    if (text === '') return [];
    this.#sentLength += text.length;
    return [{ type: 'text', text, ...(this.#recorder && { logprobs: this.#recorder.takeUntil(this.#sentLength) }) }];
  }
}
