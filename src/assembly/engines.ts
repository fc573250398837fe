import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { type FoundModel, findModel } from '../inference/downloads/catalog.ts';
import { DownloadFailure } from '../inference/downloads/failure.ts';
import { EngineFailure, type EngineOptions, type InferenceEngine } from '../inference/engine.ts';
import { startEngine, threadsFor } from '../inference/start-engine.ts';
import type { Expert } from '../tools/expert.ts';
import { createLocalExpert } from '../tools/local-expert.ts';
import type { Config } from './config.ts';
import type { Environment } from './settings.ts';

export interface EngineRequest {
  /** An id of models/downloads.json or a path to a GGUF. */
  readonly model: string;
  /** Path to a LoRA adapter for it; files of models/downloads.json that are adapters themselves take none. */
  readonly adapter?: string | undefined;
  /** Undefined: what models/downloads.json says of the model as a policy, else 8192. */
  readonly contextTokens: number | undefined;
  readonly sequences: number;
  readonly device: 'cpu' | 'cuda' | undefined;
  readonly threads: number | undefined;
}

/** Where weights lie, and what the machine says about its drivers. */
export interface ModelsPlace {
  readonly folder: string;
  readonly environment: Environment;
}

export type OpenedEngine =
  | { readonly engine: InferenceEngine; readonly found: FoundModel; readonly note: string }
  | { readonly engine: undefined; readonly note: string };

/** Of a GGUF that models/downloads.json does not know. */
const unknownContextTokens = 8192;

/** Two compute threads on two busy cores are many times slower than one, so one core is always left free. */
export async function openEngine(request: EngineRequest, place: ModelsPlace): Promise<OpenedEngine> {
  try {
    const found = await findModel(request.model, place.folder);
    if (!found.present)
      return { engine: undefined, note: `${request.model} is not here: ${wayToGet(request.model, found)}` };
    const device = request.device ?? (hasNvidiaGpu() ? 'cuda' : 'cpu');
    const options: EngineOptions = {
      modelPath: found.base?.path ?? found.path,
      adapter: adapterOf(request, found),
      device,
      threads: request.threads ?? threadsFor(availableParallelism()),
      contextTokens: request.contextTokens ?? found.entry?.policy?.contextTokens ?? unknownContextTokens,
      sequences: request.sequences,
      prefillChunkTokens: device === 'cuda' ? 512 : 128,
      environment: driverVariables(place.environment),
    };
    const engine = await startEngine(options);
    return { engine, found, note: `${request.model} runs on ${engine.info.device}` };
  } catch (error) {
    if (error instanceof EngineFailure || error instanceof DownloadFailure)
      return { engine: undefined, note: error.message };
    throw error;
  }
}

function adapterOf({ model, adapter }: EngineRequest, found: FoundModel): EngineOptions['adapter'] {
  if (adapter === undefined) return found.base && { path: found.path, scale: 1 };
  if (found.base) throw new EngineFailure('unavailable', `${model} is an adapter itself and takes no other`);
  return { path: resolve(adapter), scale: 1 };
}

const wayToGet = (model: string, { entry, path }: FoundModel): string =>
  entry ? `run \`npm run orchestra -- models pull ${model}\`` : `there is no file ${path}`;

/** An entry of `models` that writes answers; undefined where it does not run. */
export function localExpert(
  name: string,
  { models }: Config,
  engines: ReadonlyMap<string, InferenceEngine>,
): Expert | undefined {
  const [engine, model] = [engines.get(name), models[name]];
  if (!engine || !model) return undefined;
  const { temperature, top_p: topP, frequency_penalty: frequencyPenalty } = model;
  return createLocalExpert(engine, { temperature, topP, frequencyPenalty });
}

/** The driver's device file: where it is, a CPU fallback would be an unpleasant surprise. */
const hasNvidiaGpu = (): boolean => existsSync('/dev/nvidiactl');

/** All that a host process gets to see of our environment: how to find the GPU's libraries, and which GPU. */
function driverVariables(environment: Environment): Record<string, string> {
  const names = ['LD_LIBRARY_PATH', 'CUDA_VISIBLE_DEVICES', 'NVIDIA_VISIBLE_DEVICES', 'CUDA_CACHE_PATH'];
  return Object.fromEntries(names.flatMap((name) => (environment[name] ? [[name, environment[name]]] : [])));
}
