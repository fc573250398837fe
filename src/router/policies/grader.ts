import { gradeSegments } from '../../contract/beliefs.ts';
import type { BeliefsContract } from '../../contract/schema.ts';
import type { Segment } from '../../contract/segment.ts';
import { noUsage, type Usage, usageOf } from '../../cost/usage.ts';
import type { InferenceEngine, JudgeRequest } from '../../inference/engine.ts';

/** Chance of each grade, worst first; sums to 1. */
export type Grades = readonly number[];

export interface Graded {
  /** One a question, in order. */
  readonly grades: readonly Grades[];
  readonly usage: Usage;
}

/** One run's questions about one prompt. Prompt and signal say which: a run asks each question once. */
export interface GradeRequest extends Pick<JudgeRequest, 'privateTo' | 'inProgress' | 'deadlineMs' | 'signal'> {
  readonly prompt: readonly Segment[];
  readonly questions: readonly (readonly Segment[])[];
}

export type Grader = (request: GradeRequest) => Promise<Graded>;

const keyOf = (segments: readonly Segment[]): string => JSON.stringify(segments);

/** Has the engine grade, and remembers the grades as long as the run's signal lives. */
export function createGrader(engine: Pick<InferenceEngine, 'judge'>, contract: BeliefsContract): Grader {
  const answers = gradeSegments(contract);
  const ofRuns = new WeakMap<AbortSignal, Map<string, Map<string, Grades>>>();

  function gradesKnown({ signal, prompt }: GradeRequest): Map<string, Grades> {
    const ofPrompts = ofRuns.get(signal) ?? new Map<string, Map<string, Grades>>();
    ofRuns.set(signal, ofPrompts);
    const text = keyOf(prompt);
    const known = ofPrompts.get(text) ?? new Map<string, Grades>();
    ofPrompts.set(text, known);
    return known;
  }

  return async (request) => {
    const known = gradesKnown(request);
    const fresh = new Map(request.questions.map((question) => [keyOf(question), question]));
    for (const key of known.keys()) fresh.delete(key);
    const usage = fresh.size === 0 ? noUsage : await ask({ ...request, questions: [...fresh.values()] }, known);
    return { grades: request.questions.map((question) => known.get(keyOf(question)) ?? []), usage };
  };

  async function ask(request: GradeRequest, known: Map<string, Grades>): Promise<Usage> {
    const { logProbabilities, usage } = await engine.judge({ ...request, answers });
    for (const [index, question] of request.questions.entries()) {
      known.set(keyOf(question), (logProbabilities[index] ?? []).map(Math.exp));
    }
    const { promptTokens, cachedTokens, outputTokens } = usage;
    return usageOf({ inputTokens: promptTokens, cacheReadTokens: cachedTokens, outputTokens, calls: 1 });
  }
}
