import { freemem } from 'node:os';
import type { Llama } from 'node-llama-cpp';
import { EngineFailure, type EngineOptions } from './engine.ts';
import type { GgufFacts } from './gguf-file.ts';

/** For copies of what sequences hold, unless somebody says otherwise. */
export const defaultSnapshotBytes = 256 * 2 ** 20;

/** Buffers of llama.cpp beside weights and cache; a generous guess for the batch sizes we use. */
const workBytes = 256 * 2 ** 20;

/**
 * Refuses now what would die later. Snapshots count as memory, where their folder may well be.
 * @param weightsBytes that are still to be loaded; 0 for another context on loaded weights.
 */
export async function requireMemory(
  options: EngineOptions,
  weightsBytes: number,
  facts: GgufFacts,
  llama: Llama,
): Promise<void> {
  const { contextTokens, sequences, device, snapshotBytes = defaultSnapshotBytes } = options;
  const cacheBytes = facts.cacheBytesPerToken * contextTokens * sequences;
  const onDevice = weightsBytes + cacheBytes + workBytes;
  const isCuda = device === 'cuda';
  const freeOnDevice = isCuda ? (await llama.getVramState()).free : freeMemoryBytes();
  const needed = isCuda ? onDevice : onDevice + snapshotBytes;
  if (needed > freeOnDevice) {
    const copies = isCuda ? '' : ` and snapshots (${inMiB(snapshotBytes)})`;
    const message = `weights (${inMiB(weightsBytes)}), context (${inMiB(cacheBytes)} for ${sequences} sequences of ${contextTokens} tokens)${copies} need ${inMiB(needed)}, but ${inMiB(freeOnDevice)} are free; ask for a smaller context or fewer sequences`;
    throw new EngineFailure('unavailable', message);
  }
  if (isCuda && snapshotBytes > freeMemoryBytes()) {
    throw new EngineFailure('unavailable', `snapshots need ${inMiB(snapshotBytes)} of memory, which are not free`);
  }
}

/** In a container the limit counts; what it has cached of files does not, so use against the limit is no measure. */
const freeMemoryBytes = (): number => Math.min(freemem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);

const inMiB = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;
