import { chatTemplate } from './chat-template.ts';
import { DecodeTurns } from './decode-turns.ts';
import {
  EngineFailure,
  type EngineOptions,
  type GenerateEvent,
  type GenerateRequest,
  type InferenceEngine,
  type ScoreRequest,
  type ScoreResult,
} from './engine.ts';
import { generateText } from './generate.ts';
import { loadModel } from './load-model.ts';
import { planScore, scoreChoices } from './score.ts';
import { Sequence } from './sequence.ts';
import { SequencePool } from './sequence-pool.ts';
import { modelTokens } from './tokens.ts';
import { checkEngineOptions, checkGenerateRequest, checkScoreRequest } from './validate.ts';

/** Waiting requests for each sequence, before new ones are turned away. */
const lineLengthPerSequence = 16;

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
  const turns = new DecodeTurns();
  const newSequence = () => new Sequence(context.getSequence({ contextShift }), tokens, turns, options);
  const sequences = Array.from({ length: options.sequences }, newSequence);
  const pool = new SequencePool(sequences, options.sequences * lineLengthPerSequence);

  async function score(request: ScoreRequest): Promise<ScoreResult> {
    checkScoreRequest(request);
    pool.throwIfClosed();
    const plan = planScore(request, tokens, contextTokens);
    const lease = await pool.acquire(plan.context, request.signal, request.privateTo);
    try {
      return await scoreChoices(plan, lease.sequence, tokens, lease.signal);
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
    const lease = await pool.acquire(prompt, request.signal, request.privateTo);
    try {
      yield* generateText(request, prompt, lease.sequence, tokens, lease.signal);
    } finally {
      lease.release();
    }
  }

  return {
    info: { architecture: facts.architecture, device, contextTokens, weightsHash },
    score,
    generate,
    async countTokens(text) {
      pool.throwIfClosed();
      return tokens.ofText(text).length;
    },
    decodingForMs: () => turns.decodingForMs(),
    async close() {
      await pool.close();
      await llama.dispose();
    },
  };
}

/** We stop at the end of the context ourselves; should that ever fail, a shift must not pass unnoticed. */
const contextShift = {
  strategy: (): never => {
    throw new EngineFailure('context_full', 'the context is full');
  },
};
