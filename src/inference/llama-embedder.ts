import {
  getLlama,
  type LlamaEmbeddingContext,
  LlamaLogLevel,
  type LlamaModel,
  type LlamaRankingContext,
} from 'node-llama-cpp';
import { keepHead } from '../contract/code-points.ts';
import { EngineFailure, type EngineInfo, type EngineOptions } from './engine.ts';
import { readGgufFacts } from './gguf-file.ts';
import { sha256OfFile } from './weights-hash.ts';

/** The model itself, inside the host process. */
export interface LlamaEmbedder {
  readonly info: EngineInfo;
  /** Rejects as `invalid` for a reranker. */
  embed(text: string): Promise<Float32Array>;
  /** Says how well texts answer the query: a reranker by its own judgement, an embedding by the cosine. */
  ranking(query: string): Promise<(text: string) => Promise<number>>;
  /** Milliseconds that the present text has taken so far, 0 between texts. */
  decodingForMs(): number;
}

/** What the model was trained on; its start and end tokens are among them. */
const mostTokens = 256;
/** No vocabulary has longer words, and the tokenizer would read a whole book for its first page. */
const mostCodePoints = 16 * mostTokens;

export async function loadLlamaEmbedder(options: EngineOptions): Promise<LlamaEmbedder> {
  const facts = await readGgufFacts(options.modelPath);
  const weightsHash = await sha256OfFile(options.modelPath);
  const work = await openModel(options).catch((error: unknown) => {
    const message = `llama.cpp cannot embed with the weights file ${options.modelPath} (architecture ${facts.architecture})`;
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
    info: {
      architecture: facts.architecture,
      device: 'cpu',
      contextTokens: mostTokens,
      takesTools: false,
      weightsHash,
    },
    embed: (text) => timed(work.embed(text)),
    async ranking(query) {
      const score = await timed(work.ranking(query));
      return (text) => timed(score(text));
    },
    decodingForMs: () => (startedAtMs === undefined ? 0 : performance.now() - startedAtMs),
  };
}

async function openModel({ modelPath, threads, contextTokens }: EngineOptions) {
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
  // Attention in both directions and the mean over all tokens need the whole text in one batch.
  const size = { contextSize: contextTokens, batchSize: contextTokens, threads, ignoreMemorySafetyChecks: true };
  return model.fileInsights.supportsRanking
    ? reranker(model, await model.createRankingContext(size))
    : embedding(model, await model.createEmbeddingContext(size));
}

type Work = Pick<LlamaEmbedder, 'embed' | 'ranking'>;

function embedding(model: LlamaModel, context: LlamaEmbeddingContext): Work {
  const embed = async (text: string) => unit((await context.getEmbeddingFor(headOf(text, model))).vector);
  return {
    embed,
    async ranking(query) {
      const wanted = await embed(query);
      return async (text) => {
        const vector = await embed(text);
        return wanted.reduce((sum, value, index) => sum + value * (vector[index] ?? 0), 0);
      };
    },
  };
}

/** Query and text share the window; of both the head counts. */
function reranker(model: LlamaModel, context: LlamaRankingContext): Work {
  const head = (text: string, most: number) => model.tokenize(keepHead(text, mostCodePoints), false).slice(0, most);
  return {
    async embed() {
      throw new EngineFailure('invalid', 'these weights rank texts and give no vectors');
    },
    async ranking(query) {
      const asked = head(query, mostTokens / 2);
      const used = context.calculateInputLength(asked, []);
      return (text) => context.rank(asked, head(text, context.contextSize - used - 1));
    },
  };
}

/** Never empty: even nothing has a vector, that of the two tokens around it. */
function headOf(text: string, model: LlamaModel) {
  const tokens = model.tokenize(keepHead(text, mostCodePoints), false).slice(0, mostTokens - 2);
  const { bos } = model.tokens;
  return tokens.length === 0 && bos !== null ? [bos] : tokens;
}

function unit(vector: readonly number[]): Float32Array {
  const length = Math.hypot(...vector);
  if (!(length > 0)) throw new EngineFailure('crashed', 'the embedding of a text has no direction');
  return Float32Array.from(vector, (value) => value / length);
}
