import { setImmediate } from 'node:timers/promises';
import {
  getLlama,
  type Llama,
  LlamaLogLevel,
  LlamaLogLevelGreaterThanOrEqual,
  type LlamaModel,
  NoBinaryFoundError,
} from 'node-llama-cpp';
import { cudaFacts, cudaProblem } from './cuda-problem.ts';
import { EngineFailure, type EngineOptions } from './engine.ts';
import { type GgufFacts, readGgufFacts } from './gguf-file.ts';
import { planMemory } from './memory-plan.ts';
import { sha256OfFile } from './weights-hash.ts';

export interface LoadedModel {
  readonly llama: Llama;
  readonly model: LlamaModel;
  readonly facts: GgufFacts;
  /** `cpu`, or `cuda` with the names of the devices. */
  readonly device: string;
  /** Of the file, without adapters. */
  readonly weightsHash: string;
  /** What the memory plan leaves for copies. */
  readonly snapshotBytes: number;
  /** What llama.cpp has against something: its own errors do not say. */
  reason(error: unknown): Promise<string>;
}

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
  const reason = async (error: unknown): Promise<string> => {
    // Log lines come from another thread and may be one turn of the event loop behind.
    await setImmediate();
    return log.splice(0).join(' ') || String(error);
  };
  try {
    const device = await deviceName(options, llama);
    const snapshotBytes = await planMemory(options, facts.fileBytes, facts, llama);
    const weightsHash = await sha256OfFile(options.modelPath);
    return { model: await openModel(options, llama), llama, facts, device, weightsHash, snapshotBytes, reason };
  } catch (error) {
    const why = await reason(error);
    await llama.dispose();
    if (error instanceof EngineFailure) throw error;
    const message = `llama.cpp cannot use the weights file ${options.modelPath} (architecture ${facts.architecture}): ${why}`;
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

function deviceMessage(options: EngineOptions, error: unknown): string {
  if (options.device === 'cuda') return noCuda(options);
  const problem = error instanceof NoBinaryFoundError ? 'no engine for it works here' : 'the engine failed to start';
  return `device cpu was asked for, but ${problem}; reinstall with optional packages, on a system with glibc 2.34 or newer`;
}

async function deviceName(options: EngineOptions, llama: Llama): Promise<string> {
  if (options.device === 'cpu') return 'cpu';
  const names = await llama.getGpuDeviceNames();
  if (llama.gpu !== 'cuda' || names.length === 0) throw new EngineFailure('unavailable', noCuda(options));
  return `cuda (${names.join(', ')})`;
}

const noCuda = ({ environment }: EngineOptions): string =>
  `device cuda was asked for, but ${cudaProblem(cudaFacts(environment?.['LD_LIBRARY_PATH'] ?? ''))}; the CPU is not taken in silence, ask for device cpu to use it`;

const openModel = ({ modelPath, device }: EngineOptions, llama: Llama): Promise<LlamaModel> =>
  llama.loadModel({
    modelPath,
    gpuLayers: device === 'cuda' ? 'max' : 0,
    // Our own arithmetic has decided; the library's check can take most of a minute.
    ignoreMemorySafetyChecks: true,
  });
