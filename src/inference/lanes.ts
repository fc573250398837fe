import { createHash } from 'node:crypto';
import type { LlamaContext } from 'node-llama-cpp';
import type { AdapterCopy, UseAdapter } from './adapter-file.ts';
import { BatchCosts, processorMs } from './batch-costs.ts';
import { type Adapter, EngineFailure, type EngineOptions } from './engine.ts';
import type { LoadedModel } from './load-model.ts';
import { Rounds } from './rounds.ts';
import { Sequence } from './sequence.ts';
import { SequencePool } from './sequence-pool.ts';
import { Snapshots } from './snapshots.ts';

/** A context with its sequences and what they remember, on the bare weights or on weights with an adapter. */
export interface Lanes {
  readonly pool: SequencePool;
  readonly adapter: Adapter | undefined;
  /** Of the weights file, and of the adapter and its scale where there is one. */
  readonly weightsHash: string;
  readonly rounds: Rounds;
  /** Ends what is running on them and frees their memory. */
  close(): Promise<void>;
}

/** As the memory plan allows them. */
export interface LaneOptions extends EngineOptions {
  readonly snapshotBytes: number;
}

/** Waiting requests for each sequence, before new ones are turned away. */
const lineLengthPerSequence = 16;

export async function openLanes(
  loaded: LoadedModel,
  options: LaneOptions,
  adapter: Adapter | undefined,
  useAdapter: UseAdapter,
): Promise<Lanes> {
  if (adapter === undefined) {
    const context = await openContext(loaded, options);
    return { ...lanesOn(context, loaded, options), adapter, weightsHash: loaded.weightsHash };
  }
  return useAdapter(adapter, loaded.facts.architecture, async (copy) => {
    const context = await openContext(loaded, options, { path: adapter.path, copy });
    return { ...lanesOn(context, loaded, options), adapter, weightsHash: hashWith(copy, loaded.weightsHash) };
  });
}

function lanesOn(context: LlamaContext, { facts }: LoadedModel, options: LaneOptions) {
  const costs = new BatchCosts(options.device === 'cpu' ? processorMs : undefined);
  const rounds = new Rounds(options.prefillChunkTokens, costs);
  const newSequence = (_: unknown, lane: number) =>
    new Sequence(context.getSequence({ contextShift }), lane, rounds, options);
  const sequences = Array.from({ length: options.sequences }, newSequence);
  // Of these lanes alone: what one adapter has computed is wrong for another.
  const snapshots = new Snapshots(options.snapshotBytes, facts.cacheBytesPerToken);
  const pool = new SequencePool(sequences, snapshots, options.sequences * lineLengthPerSequence);
  const close = async () => {
    await pool.close();
    await context.dispose();
  };
  return { pool, rounds, close };
}

export async function openContext(
  { model, facts, reason }: LoadedModel,
  options: EngineOptions,
  adapter?: { readonly path: string; readonly copy: AdapterCopy },
): Promise<LlamaContext> {
  try {
    return await model.createContext({
      contextSize: options.contextTokens,
      sequences: options.sequences,
      // A round of writers, or one chunk of prompts, is always one batch.
      batchSize: Math.max(options.prefillChunkTokens, options.sequences),
      threads: options.threads,
      ignoreMemorySafetyChecks: true,
      failedCreationRemedy: false,
      ...(adapter && { lora: { adapters: [{ filePath: adapter.copy.filePath, scale: adapter.copy.scale }] } }),
    });
  } catch (error) {
    const subject = adapter ? `the adapter ${adapter.path} with` : 'the weights file';
    const message = `llama.cpp cannot use ${subject} ${options.modelPath} (architecture ${facts.architecture}): ${await reason(error)}`;
    throw new EngineFailure('unavailable', message, error);
  }
}

const hashWith = ({ sha256, scale }: AdapterCopy, baseHash: string): string =>
  createHash('sha256').update(`${baseHash} + ${sha256} * ${scale}`).digest('hex');

/** We stop at the end of the context ourselves; should that ever fail, a shift must not pass unnoticed. */
const contextShift = {
  strategy: (): never => {
    throw new EngineFailure('context_full', 'the context is full');
  },
};
