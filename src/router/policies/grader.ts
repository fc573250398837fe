import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
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

/** One run's questions about one prompt; the signal says which run. */
export interface GradeRequest extends Pick<JudgeRequest, 'privateTo' | 'inProgress' | 'deadlineMs' | 'signal'> {
  readonly askedBy: string;
  readonly prompt: readonly Segment[];
  readonly questions: readonly (readonly Segment[])[];
}

export type Grader = (request: GradeRequest) => Promise<Graded>;

/** By fingerprint, so that no text is kept: some 100 bytes each. */
interface Memory {
  get(fingerprint: string): Grades | undefined;
  set(fingerprint: string, grades: Grades): unknown;
}

const rememberedGrades = 20_000;

/**
 * Has the engine grade, and asks it nothing twice: equal weights read equal prompts alike. What a private run asked is
 * known to that run alone, as long as its signal lives; other runs of one key share what they asked. Shared by all keys,
 * it would tell one of them what another has asked.
 */
export function createGrader(
  engine: Pick<InferenceEngine, 'judge'>,
  weightsHash: () => string,
  contract: BeliefsContract,
): Grader {
  const answers = gradeSegments(contract);
  const shared = new LRUCache<string, Grades>({ max: rememberedGrades });
  const ofPrivateRuns = new WeakMap<AbortSignal, Map<string, Grades>>();

  function memoryOf({ privateTo, signal }: GradeRequest): Memory {
    if (privateTo === undefined) return shared;
    const own = ofPrivateRuns.get(signal) ?? new Map<string, Grades>();
    ofPrivateRuns.set(signal, own);
    return own;
  }

  return async (request) => {
    const memory = memoryOf(request);
    const weightsInUse = weightsHash();
    const asked = request.questions.map((question) => ({
      question,
      key: fingerprintOf(request.askedBy, weightsInUse, request.prompt, question),
    }));
    const known = new Map(asked.map(({ key }) => [key, memory.get(key)]));
    const fresh = [...new Map(asked.map((one) => [one.key, one])).values()].filter(({ key }) => !known.get(key));
    const { grades, usage } = await ask({ ...request, questions: fresh.map(({ question }) => question) });
    // An adapter that was swapped in meanwhile may have answered: that holds for this decision alone.
    const stillInUse = weightsHash() === weightsInUse;
    for (const [index, { key }] of fresh.entries()) {
      const found = grades[index] ?? [];
      known.set(key, found);
      if (stillInUse) memory.set(key, found);
    }
    return { grades: asked.map(({ key }) => known.get(key) ?? []), usage };
  };

  async function ask({ askedBy, ...request }: GradeRequest): Promise<Graded> {
    if (request.questions.length === 0) return { grades: [], usage: noUsage };
    const { logProbabilities, usage } = await engine.judge({ ...request, answers });
    const { promptTokens, cachedTokens, outputTokens } = usage;
    return {
      grades: logProbabilities.map((row) => row.map(Math.exp)),
      usage: usageOf({ inputTokens: promptTokens, cacheReadTokens: cachedTokens, outputTokens, calls: 1 }),
    };
  }
}

const fingerprintOf = (...parts: readonly unknown[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('base64');
