import type { LlamaGrammarEvaluationState, Token } from 'node-llama-cpp';
import type { GenerateEvent, GenerateRequest } from './engine.ts';
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
  const decoder = tokenDecoder<Token>((ids, before) => tokens.toText(ids, before));
  const filter = stopFilter(request.stop);
  const { temperature, topP, seed } = request;
  const sampling = { temperature, topP, seed, ...(grammarEvaluationState && { grammarEvaluationState }) };
  let outputTokens = 0;
  let ended = false;
  let stopped = false;
  for await (const token of sequence.sample(prompt, sampling, signal)) {
    outputTokens++;
    ended = tokens.isEnd(token);
    if (ended) break;
    const piece = filter.push(decoder.push(token));
    stopped = piece.stopped;
    if (piece.text !== '') yield { type: 'text', text: piece.text };
    if (stopped || outputTokens >= request.maxTokens) break;
  }
  if (!stopped) {
    const piece = filter.push(decoder.flush());
    stopped = piece.stopped;
    const rest = piece.text + filter.flush();
    if (rest !== '') yield { type: 'text', text: rest };
  }
  const usage = { promptTokens: prompt.length - cachedTokens, cachedTokens, outputTokens };
  yield { type: 'end', finishReason: ended || stopped ? 'stop' : 'length', usage };
}
