import {
  getLlama,
  type LlamaEmbeddingContext,
  LlamaLogLevel,
  type LlamaModel,
  type LlamaRankingContext,
  type Token,
} from 'node-llama-cpp';
import { keepHead } from '../contract/code-points.ts';
import { mostCodePointsPerToken } from './embedder.ts';
import { EngineFailure, type EngineInfo, type EngineOptions } from './engine.ts';
import { readGgufFacts } from './gguf-file.ts';
import { sha256OfFile } from './weights-hash.ts';

/** What of a text is read. */
export interface TextHead {
  readonly tokens: readonly Token[];
  /** With the marks that the model has around a text. */
  readonly readTokens: number;
  readonly isCut: boolean;
}

/** The model itself, inside the host process. */
export interface LlamaEmbedder {
  /** Of a text at most `contextTokens` are read. */
  readonly info: EngineInfo;
  headOf(text: string): TextHead;
  /** Rejects as `invalid` for a reranker. */
  embed(head: TextHead): Promise<Float32Array>;
  /** Says how well texts answer the query: a reranker by its own judgement, an embedding by the cosine. */
  ranking(query: string): Promise<(text: string) => Promise<number>>;
  /** Milliseconds that the present text has taken so far, 0 between texts. */
  decodingForMs(): number;
}

export async function loadLlamaEmbedder(options: EngineOptions): Promise<LlamaEmbedder> {
  const { modelPath, contextTokens } = options;
  const { architecture, trainedContextTokens } = await readGgufFacts(modelPath);
  if (contextTokens > trainedContextTokens) {
    const message = `texts of ${contextTokens} tokens were asked for, but ${modelPath} was trained on ${trainedContextTokens}; set a context of at most ${trainedContextTokens}`;
    throw new EngineFailure('unavailable', message);
  }
  const weightsHash = await sha256OfFile(modelPath);
  const work = await openModel(options).catch((error: unknown) => {
    const message = `llama.cpp cannot embed with the weights file ${modelPath} (architecture ${architecture})`;
    throw new EngineFailure('unavailable', message, error);
  });
  let startedAtMs: number | undefined;
  const timed = async <Result>(result: Promise<Result>): Promise<Result> => {
    startedAtMs = performance.now();
    try {
      return await result;
    } finally {
      startedAtMs = undefined;
    }
  };
  return {
    info: { architecture, device: 'cpu', contextTokens, takesTools: false, weightsHash },
    headOf: work.headOf,
    embed: (head) => timed(work.embed(head)),
    async ranking(query) {
      const score = await timed(work.ranking(query));
      return (text) => timed(score(text));
    },
    decodingForMs: () => (startedAtMs === undefined ? 0 : performance.now() - startedAtMs),
  };
}

async function openModel({ modelPath, threads, contextTokens }: EngineOptions): Promise<Work> {
  const llama = await getLlama({
    gpu: false,
    build: 'never',
    skipDownload: true,
    maxThreads: threads,
    // The library warns of every model that lower-cases its input.
    logLevel: LlamaLogLevel.error,
    progressLogs: false,
  });
  const model = await llama.loadModel({ modelPath, gpuLayers: 0, ignoreMemorySafetyChecks: true });
  // The library refuses a text that fills its context.
  const contextSize = contextTokens + 1;
  // Attention in both directions and the mean over all tokens need the whole text in one batch.
  const size = { contextSize, batchSize: contextSize, threads, ignoreMemorySafetyChecks: true };
  return model.fileInsights.supportsRanking
    ? reranker(model, await model.createRankingContext(size), contextTokens)
    : embedding(model, await model.createEmbeddingContext(size), contextTokens);
}

type Work = Pick<LlamaEmbedder, 'headOf' | 'embed' | 'ranking'>;

function embedding(model: LlamaModel, context: LlamaEmbeddingContext, mostTokens: number): Work {
  const marks = context.calculateInputLength([]);
  const headOf = (text: string): TextHead => {
    const { tokens, isCut } = cut(text, mostTokens - marks, model);
    return { tokens, readTokens: tokens.length + marks, isCut };
  };
  const embed = async ({ tokens }: TextHead) => {
    // Never empty: even nothing has a vector, that of the marks around it.
    const { bos, eos } = model.tokens;
    const nothing = bos ?? eos;
    const read = tokens.length === 0 && nothing !== null ? [nothing] : [...tokens];
    return unit((await context.getEmbeddingFor(read)).vector);
  };
  return {
    headOf,
    embed,
    async ranking(query) {
      const wanted = await embed(headOf(query));
      return async (text) => {
        const vector = await embed(headOf(text));
        return wanted.reduce((sum, value, index) => sum + value * (vector[index] ?? 0), 0);
      };
    },
  };
}

/** Query and text share the window; of both the head counts. */
function reranker(model: LlamaModel, context: LlamaRankingContext, mostTokens: number): Work {
  return {
    headOf: () => ({ tokens: [], readTokens: 0, isCut: false }),
    async embed() {
      throw new EngineFailure('invalid', 'these weights rank texts and give no vectors');
    },
    async ranking(query) {
      const asked = cut(query, Math.floor(mostTokens / 2), model).tokens;
      const used = context.calculateInputLength(asked, []);
      return (text) => context.rank(asked, cut(text, mostTokens - used, model).tokens);
    },
  };
}

/** At a token: what is left is what the model would have read first. */
function cut(
  text: string,
  mostTokens: number,
  model: LlamaModel,
): { readonly tokens: Token[]; readonly isCut: boolean } {
  const head = keepHead(text, mostTokens * mostCodePointsPerToken);
  const all = model.tokenize(head, false);
  const tokens = all.slice(0, mostTokens);
  return { tokens, isCut: tokens.length < all.length || head.length < text.length };
}

function unit(vector: readonly number[]): Float32Array {
  const length = Math.hypot(...vector);
  if (!(length > 0)) throw new EngineFailure('crashed', 'the embedding of a text has no direction');
  return Float32Array.from(vector, (value) => value / length);
}
