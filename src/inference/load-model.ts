import { freemem } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import {
  getLlama,
  type Llama,
  type LlamaContext,
  LlamaLogLevel,
  LlamaLogLevelGreaterThanOrEqual,
  type LlamaModel,
  NoBinaryFoundError,
} from 'node-llama-cpp';
import { EngineFailure, type EngineOptions } from './engine.ts';
import { type GgufFacts, readGgufFacts } from './gguf-file.ts';
import { sha256OfFile } from './weights-hash.ts';

export interface LoadedModel {
  readonly llama: Llama;
  readonly model: LlamaModel;
  readonly context: LlamaContext;
  readonly facts: GgufFacts;
  /** `cpu`, or `cuda` with the names of the devices. */
  readonly device: string;
  readonly weightsHash: string;
}

/** Buffers of llama.cpp beside weights and cache; a generous guess for the batch sizes we use. */
const workBytes = 256 * 2 ** 20;
const keptLogLines = 8;

export async function loadModel(options: EngineOptions): Promise<LoadedModel> {
  const facts = await readGgufFacts(options.modelPath);
  if (options.contextTokens > facts.trainedContextTokens) {
    const { trainedContextTokens } = facts;
    const message = `a context of ${options.contextTokens} tokens was asked for, but the model was trained on ${trainedContextTokens}; set a context of at most ${trainedContextTokens}`;
    throw new EngineFailure('unavailable', message);
  }
  const log: string[] = [];
  const llama = await openDevice(options, log);
  try {
    const device = await deviceName(options, llama);
    await requireMemory(options, facts, llama);
    const weightsHash = await sha256OfFile(options.modelPath);
    return { ...(await openModel(options, llama)), llama, facts, device, weightsHash };
  } catch (error) {
    // Log lines come from another thread and may be one turn of the event loop behind.
    await setImmediate();
    await llama.dispose();
    if (error instanceof EngineFailure) throw error;
    const reason = log.join(' ') || String(error);
    const message = `llama.cpp cannot use the weights file ${options.modelPath} (architecture ${facts.architecture}): ${reason}`;
    throw new EngineFailure('unavailable', message, error);
  }
}

async function openDevice(options: EngineOptions, log: string[]): Promise<Llama> {
  const logger = (level: LlamaLogLevel, message: string) => {
    if (!LlamaLogLevelGreaterThanOrEqual(level, LlamaLogLevel.error)) return;
    const line = message.trim();
    if (!log.includes(line)) log.push(line);
    if (log.length > keptLogLines) log.shift();
  };
  try {
    return await getLlama({
      gpu: options.device === 'cuda' ? 'cuda' : false,
      build: 'never',
      skipDownload: true,
      maxThreads: options.threads,
      logLevel: LlamaLogLevel.error,
      logger,
      progressLogs: false,
    });
  } catch (error) {
    throw new EngineFailure('unavailable', deviceMessage(options, error), error);
  }
}

function deviceMessage({ device }: EngineOptions, error: unknown): string {
  if (device === 'cuda') return noCuda('no engine for it works here');
  const problem = error instanceof NoBinaryFoundError ? 'no engine for it works here' : 'the engine failed to start';
  return `device cpu was asked for, but ${problem}; reinstall with optional packages`;
}

async function deviceName({ device }: EngineOptions, llama: Llama): Promise<string> {
  if (device === 'cpu') return 'cpu';
  const names = await llama.getGpuDeviceNames();
  if (llama.gpu !== 'cuda' || names.length === 0) throw new EngineFailure('unavailable', noCuda('it shows no device'));
  return `cuda (${names.join(', ')})`;
}

const noCuda = (problem: string): string =>
  `device cuda was asked for, but ${problem}: check driver, CUDA runtime and the package for CUDA; the CPU is not taken in silence, ask for device cpu to use it`;

async function requireMemory(options: EngineOptions, facts: GgufFacts, llama: Llama): Promise<void> {
  const cacheBytes = facts.cacheBytesPerToken * options.contextTokens * options.sequences;
  const neededBytes = facts.fileBytes + cacheBytes + workBytes;
  const freeBytes = options.device === 'cuda' ? (await llama.getVramState()).free : freeMemoryBytes();
  if (neededBytes <= freeBytes) return;
  const message = `weights (${inMiB(facts.fileBytes)}) and context (${inMiB(cacheBytes)} for ${options.sequences} sequences of ${options.contextTokens} tokens) need ${inMiB(neededBytes)}, but ${inMiB(freeBytes)} are free; ask for a smaller context or fewer sequences`;
  throw new EngineFailure('unavailable', message);
}

/** In a container the limit counts; what it has cached of files does not, so use against the limit is no measure. */
const freeMemoryBytes = (): number => Math.min(freemem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);

const inMiB = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;

async function openModel(options: EngineOptions, llama: Llama): Promise<{ model: LlamaModel; context: LlamaContext }> {
  const model = await llama.loadModel({
    modelPath: options.modelPath,
    gpuLayers: options.device === 'cuda' ? 'max' : 0,
    // Our own arithmetic has decided; the library's check can take most of a minute.
    ignoreMemorySafetyChecks: true,
  });
  const context = await model.createContext({
    contextSize: options.contextTokens,
    sequences: options.sequences,
    // A round of writers, or one chunk of prompts, is always one batch.
    batchSize: Math.max(options.prefillChunkTokens, options.sequences),
    threads: options.threads,
    ignoreMemorySafetyChecks: true,
    failedCreationRemedy: false,
  });
  return { model, context };
}
