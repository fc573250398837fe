import type { Token } from 'node-llama-cpp';
import { EngineFailure, type JudgeRequest, type JudgeResult } from './engine.ts';
import { probeBehind } from './score.ts';
import type { Sequence } from './sequence.ts';
import type { ModelTokens } from './tokens.ts';
import { buildTrie, scoreTrie, type TrieNode } from './trie.ts';

export interface JudgePlan {
  readonly prompt: readonly Token[];
  readonly questions: readonly (readonly Token[])[];
  readonly answers: TrieNode;
  readonly answerCount: number;
}

/** Tokenises and checks everything before the first expensive act. */
export function planJudge(request: JudgeRequest, tokens: ModelTokens, contextTokens: number): JudgePlan {
  const prompt = tokens.ofSegments(request.prompt);
  const questions = request.questions.map(tokens.ofStatic);
  if (prompt.length === 0) throw new EngineFailure('invalid', 'the prompt is empty');
  if (questions.some(({ length }) => length === 0)) throw new EngineFailure('invalid', 'a question is empty');
  const answers = request.answers.map(tokens.ofStatic);
  const longest = (texts: readonly (readonly Token[])[]) => Math.max(...texts.map(({ length }) => length));
  const needed = prompt.length + longest(questions) + longest(answers) + 1;
  if (needed > contextTokens) {
    throw new EngineFailure('context_full', `the prompt needs ${needed} tokens, the context has ${contextTokens}`);
  }
  return { prompt, questions, answers: buildTrie(answers, tokens.endOfTurn), answerCount: answers.length };
}

/** Every question is read behind the prompt as if it were the only one, so their order changes nothing. */
export async function judgeQuestions(plan: JudgePlan, sequence: Sequence, signal: AbortSignal): Promise<JudgeResult> {
  const cachedTokens = sequence.cachedPrefix(plan.prompt);
  const evaluatedBefore = sequence.evaluatedPromptTokens;
  const logProbabilities: number[][] = [];
  for (const question of plan.questions) {
    const probe = probeBehind([...plan.prompt, ...question], sequence, signal);
    logProbabilities.push(await scoreTrie(plan.answers, plan.answerCount, probe));
  }
  const promptTokens = sequence.evaluatedPromptTokens - evaluatedBefore;
  return { logProbabilities, usage: { promptTokens, cachedTokens, outputTokens: 0 } };
}
