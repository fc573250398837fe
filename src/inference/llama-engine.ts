import type { Token } from 'node-llama-cpp';
import { chatTemplate } from './chat-template.ts';
import {
  EngineFailure,
  type EngineOptions,
  type GenerateEvent,
  type GenerateRequest,
  type InferenceEngine,
  type JudgeRequest,
  type JudgeResult,
  type ScoreRequest,
  type ScoreResult,
} from './engine.ts';
import { generateText } from './generate.ts';
import { grammarsOf } from './grammars.ts';
import { judgeQuestions, planJudge } from './judge.ts';
import { loadModel } from './load-model.ts';
import { Rounds } from './rounds.ts';
import { planScore, scoreChoices } from './score.ts';
import { Sequence } from './sequence.ts';
import { type Applicant, SequencePool } from './sequence-pool.ts';
import { Snapshots } from './snapshots.ts';
import { modelTokens } from './tokens.ts';
import { checkEngineOptions, checkGenerateRequest, checkJudgeRequest, checkScoreRequest } from './validate.ts';

/** Waiting requests for each sequence, before new ones are turned away. */
const lineLengthPerSequence = 16;

const defaultSnapshotBytes = 256 * 2 ** 20;

export interface LlamaEngine extends InferenceEngine {
  /** Milliseconds that the present decode has taken so far, 0 between decodes. */
  decodingForMs(): number;
}

/** The engine in this very process: a crash of llama.cpp takes the process along. Servers use `startEngine`. */
export async function startLlamaEngine(options: EngineOptions): Promise<LlamaEngine> {
  checkEngineOptions(options);
  const { model, context, llama, facts, device, weightsHash } = await loadModel(options);
  const { contextTokens } = options;
  const tokens = modelTokens(model);
  const template = chatTemplate(model);
  const grammarFor = grammarsOf(llama, model);
  const rounds = new Rounds(options.prefillChunkTokens);
  const newSequence = (_: unknown, lane: number) =>
    new Sequence(context.getSequence({ contextShift }), lane, rounds, options);
  const sequences = Array.from({ length: options.sequences }, newSequence);
  const snapshots = new Snapshots(options.snapshotBytes ?? defaultSnapshotBytes, facts.cacheBytesPerToken);
  const pool = new SequencePool(sequences, snapshots, options.sequences * lineLengthPerSequence);

  async function score(request: ScoreRequest): Promise<ScoreResult> {
    checkScoreRequest(request);
    pool.throwIfClosed();
    const plan = planScore(request, tokens, contextTokens);
    const lease = await pool.acquire(applicant(request, plan.context));
    try {
      return await scoreChoices(plan, lease.sequence, tokens, lease.signal);
    } finally {
      lease.release();
    }
  }

  async function judge(request: JudgeRequest): Promise<JudgeResult> {
    checkJudgeRequest(request);
    pool.throwIfClosed();
    const plan = planJudge(request, tokens, contextTokens);
    const lease = await pool.acquire(applicant(request, plan.prompt));
    try {
      return await judgeQuestions(plan, lease.sequence, lease.signal);
    } finally {
      lease.release();
    }
  }

  async function* generate(request: GenerateRequest): AsyncGenerator<GenerateEvent> {
    checkGenerateRequest(request);
    pool.throwIfClosed();
    const prompt = tokens.ofTemplate(template(request.messages));
    if (prompt.length >= contextTokens) {
      const message = `the messages need ${prompt.length} tokens, the context has ${contextTokens}`;
      throw new EngineFailure('context_full', message);
    }
    const grammar = request.jsonSchema === undefined ? undefined : await grammarFor(request.jsonSchema);
    const lease = await pool.acquire(applicant(request, prompt));
    try {
      yield* generateText(request, prompt, lease.sequence, tokens, lease.signal, grammar);
    } finally {
      lease.release();
    }
  }

  return {
    info: { architecture: facts.architecture, device, contextTokens, weightsHash },
    score,
    judge,
    generate,
    async countTokens(text) {
      pool.throwIfClosed();
      return tokens.ofText(text).length;
    },
    decodingForMs: () => rounds.decodingForMs(),
    async close() {
      await pool.close();
      await llama.dispose();
    },
  };
}

const applicant = (
  request: Pick<ScoreRequest, 'privateTo' | 'inProgress' | 'deadlineMs' | 'signal'>,
  prompt: readonly Token[],
): Applicant => ({
  prompt,
  owner: request.privateTo,
  inProgress: request.inProgress ?? false,
  deadlineMs: request.deadlineMs,
  signal: request.signal,
});

/** We stop at the end of the context ourselves; should that ever fail, a shift must not pass unnoticed. */
const contextShift = {
  strategy: (): never => {
    throw new EngineFailure('context_full', 'the context is full');
  },
};
