import type { Token } from 'node-llama-cpp';
import { adapterCopies } from './adapter-file.ts';
import { chatTemplate } from './chat-template.ts';
import type {
  EngineInfo,
  EngineOptions,
  GenerateEvent,
  GenerateRequest,
  InferenceEngine,
  JudgeRequest,
  JudgeResult,
  ScoreRequest,
  ScoreResult,
} from './engine.ts';
import { generateText, planGenerate } from './generate.ts';
import { grammarsOf } from './grammars.ts';
import { judgeQuestions, planJudge } from './judge.ts';
import { LaneSwap } from './lane-swap.ts';
import { openLanes } from './lanes.ts';
import { type LoadedModel, loadModel } from './load-model.ts';
import { planMemory } from './memory-plan.ts';
import { planScore, scoreChoices } from './score.ts';
import type { Applicant, Lease, SequencePool } from './sequence-pool.ts';
import { modelTokens } from './tokens.ts';
import {
  checkAdapter,
  checkEngineOptions,
  checkGenerateRequest,
  checkJudgeRequest,
  checkScoreRequest,
} from './validate.ts';

export interface LlamaEngine extends InferenceEngine {
  /** Milliseconds that the present decode has taken so far, 0 between decodes. */
  decodingForMs(): number;
}

/** The engine in this very process: a crash of llama.cpp takes the process along. Servers use `startEngine`. */
export async function startLlamaEngine(options: EngineOptions): Promise<LlamaEngine> {
  checkEngineOptions(options);
  const loaded = await loadModel(options);
  const { model, llama, facts, device } = loaded;
  const { contextTokens } = options;
  const tokens = modelTokens(model);
  const template = chatTemplate(model, tokens);
  const readGrammar = grammarsOf(llama, model);
  const lanes = await openFirst(loaded, options);

  async function score(request: ScoreRequest): Promise<ScoreResult> {
    checkScoreRequest(request);
    const { pool } = lanes.present;
    pool.throwIfClosed();
    const plan = planScore(request, tokens, contextTokens);
    return onSequence(pool, applicant(request, plan.context), ({ sequence, signal }) =>
      scoreChoices(plan, sequence, tokens, signal),
    );
  }

  async function judge(request: JudgeRequest): Promise<JudgeResult> {
    checkJudgeRequest(request);
    const { pool } = lanes.present;
    pool.throwIfClosed();
    const plan = planJudge(request, tokens, contextTokens);
    return onSequence(pool, applicant(request, plan.prompt), ({ sequence, signal }) =>
      judgeQuestions(plan, sequence, signal),
    );
  }

  async function* generate(request: GenerateRequest): AsyncGenerator<GenerateEvent> {
    checkGenerateRequest(request);
    lanes.present.pool.throwIfClosed();
    const plan = await planGenerate(request, { template, tokens, readGrammar, contextTokens });
    const lease = await lanes.present.pool.acquire(applicant(request, plan.prompt));
    try {
      yield* generateText(plan, lease.sequence, tokens, lease.signal);
    } finally {
      lease.release();
    }
  }

  const info = (): EngineInfo => {
    const { adapter, weightsHash } = lanes.present;
    return {
      architecture: facts.architecture,
      device,
      contextTokens,
      takesTools: template.takesTools,
      adapter,
      weightsHash,
    };
  };
  return {
    get info() {
      return info();
    },
    score,
    judge,
    generate,
    async countTokens(text) {
      lanes.present.pool.throwIfClosed();
      return tokens.ofText(text).length;
    },
    async useAdapter(adapter) {
      checkAdapter(adapter);
      await lanes.swap(adapter);
      return info();
    },
    decodingForMs: () => lanes.decodingForMs(),
    async close() {
      await lanes.close();
      await llama.dispose();
    },
  };
}

async function openFirst(loaded: LoadedModel, options: EngineOptions): Promise<LaneSwap> {
  const { facts, llama, snapshotBytes } = loaded;
  const useCopy = adapterCopies();
  try {
    const first = await openLanes(loaded, { ...options, snapshotBytes }, options.adapter, useCopy);
    return new LaneSwap(first, async (adapter) => {
      const allowed = { ...options, snapshotBytes: await planMemory(options, 0, facts, llama) };
      return openLanes(loaded, allowed, adapter, useCopy);
    });
  } catch (error) {
    await llama.dispose();
    throw error;
  }
}

async function onSequence<Result>(
  pool: SequencePool,
  applicant: Applicant,
  work: (lease: Lease) => Promise<Result>,
): Promise<Result> {
  const lease = await pool.acquire(applicant);
  try {
    return await work(lease);
  } finally {
    lease.release();
  }
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
