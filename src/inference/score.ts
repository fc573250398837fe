import type { Token } from 'node-llama-cpp';
import { EngineFailure, type ScoreRequest, type ScoreResult } from './engine.ts';
import type { Sequence } from './sequence.ts';
import { tokenDecoder } from './text-stream.ts';
import type { ModelTokens } from './tokens.ts';
import { buildTrie, type Probe, scoreTrie, type TrieNode } from './trie.ts';

/** Thoughts are sampled as Qwen3's authors advise: greedy thinking tends to repeat itself. */
const thoughtTemperature = 0.6;
const thoughtTopP = 0.95;

export interface ScorePlan {
  readonly request: ScoreRequest;
  /** Up to the place where the thought begins, or where the choice begins when there is none. */
  readonly context: readonly Token[];
  readonly trie: TrieNode;
}

/** Tokenises and checks everything before the first expensive act. */
export function planScore(request: ScoreRequest, tokens: ModelTokens, contextTokens: number): ScorePlan {
  const { budgetTokens, open, close } = request.thought;
  const thinks = budgetTokens > 0;
  const context = tokens.ofSegments([...request.prompt, open, ...(thinks ? [] : [close])]);
  if (context.length === 0) throw new EngineFailure('invalid', 'the prompt is empty');
  const choices = request.choices.map(tokens.ofStatic);
  const closing = thinks ? budgetTokens + tokens.ofSegments([close]).length : 0;
  const needed = context.length + closing + Math.max(...choices.map(({ length }) => length)) + 1;
  if (needed > contextTokens) {
    throw new EngineFailure('context_full', `the prompt needs ${needed} tokens, the context has ${contextTokens}`);
  }
  return { request, context, trie: buildTrie(choices, tokens.endOfTurn) };
}

export async function scoreChoices(
  plan: ScorePlan,
  sequence: Sequence,
  tokens: ModelTokens,
  signal: AbortSignal,
): Promise<ScoreResult> {
  const { request, trie } = plan;
  const cachedTokens = sequence.cachedPrefix(plan.context);
  const evaluatedBefore = sequence.evaluatedPromptTokens;
  const thinks = request.thought.budgetTokens > 0;
  const thought = thinks ? await think(plan, sequence, tokens, signal) : { text: '', tokens: [], sampledTokens: 0 };
  const context = [...plan.context, ...thought.tokens];
  const logProbabilities = await scoreTrie(trie, request.choices.length, probeBehind(context, sequence, signal));
  return {
    logProbabilities,
    thought: thought.text,
    usage: {
      promptTokens: sequence.evaluatedPromptTokens - evaluatedBefore,
      cachedTokens,
      outputTokens: thought.sampledTokens,
    },
  };
}

/** Reads a path of a trie behind `context`. */
export const probeBehind =
  (context: readonly Token[], sequence: Sequence, signal: AbortSignal): Probe =>
  (path, questions) => {
    const moved = questions.map(({ depth, admissible }) => ({ depth: context.length + depth, admissible }));
    // Tries are built from this model's own token ids.
    return sequence.ask([...context, ...(path as Token[])], moved, signal);
  };

interface Thought {
  readonly text: string;
  /** The thought and its closing segment. */
  readonly tokens: readonly Token[];
  readonly sampledTokens: number;
}

/**
 * Samples until the closing tag, the end of the turn or the budget, and puts the closing segment behind the thought
 * in the form that was trained, whatever the model wrote around its own tag.
 */
async function think(plan: ScorePlan, sequence: Sequence, tokens: ModelTokens, signal: AbortSignal): Promise<Thought> {
  const { budgetTokens, close } = plan.request.thought;
  const tag = close.text.trim();
  const decoder = tokenDecoder<Token>((ids, before) => tokens.toText(ids, before, { markup: true }));
  const written: { readonly token: Token; readonly end: number }[] = [];
  let text = '';
  let sampledTokens = 0;
  const sampling = { temperature: thoughtTemperature, topP: thoughtTopP, seed: plan.request.seed };
  for await (const token of sequence.sample(plan.context, sampling, signal)) {
    sampledTokens++;
    if (tokens.isEnd(token)) break;
    text += decoder.push(token);
    written.push({ token, end: text.length });
    if (text.includes(tag) || sampledTokens >= budgetTokens) break;
  }
  const found = text.indexOf(tag);
  const untilTag = found < 0 ? text : text.slice(0, found);
  const kept = close.text.startsWith(tag) ? untilTag : untilTag.trimEnd();
  const whole = written.filter(({ end }) => end <= kept.length);
  const rest = tokens.ofText(kept.slice(whole.at(-1)?.end ?? 0));
  return {
    text: kept,
    tokens: [...whole.map(({ token }) => token), ...rest, ...tokens.ofSegments([close])],
    sampledTokens,
  };
}
