import { freemem } from 'node:os';
import type { Llama } from 'node-llama-cpp';
import { EngineFailure, type EngineOptions } from './engine.ts';
import type { GgufFacts } from './gguf-file.ts';

/** Buffers of llama.cpp beside weights and cache; a generous guess for the batch sizes we use. */
const workBytes = 256 * 2 ** 20;

/**
 * Refuses now what would die later. Snapshots count as memory, where their folder may well be.
 * @param weightsBytes that are still to be loaded; 0 for another context on loaded weights.
 * @returns how many bytes of snapshots there may be: those asked for, else what `usualSnapshotBytes` says.
 */
export async function planMemory(
  options: EngineOptions,
  weightsBytes: number,
  facts: GgufFacts,
  llama: Llama,
): Promise<number> {
  const { contextTokens, sequences, device, snapshotBytes = 0 } = options;
  const sequenceBytes = facts.cacheBytesPerToken * contextTokens;
  const cacheBytes = sequenceBytes * sequences;
  const onDevice = weightsBytes + cacheBytes + workBytes;
  const isCuda = device === 'cuda';
  const freeOnDevice = isCuda ? (await llama.getVramState()).free : freeMemoryBytes();
  const needed = isCuda ? onDevice : onDevice + snapshotBytes;
  if (needed > freeOnDevice) {
    const copies = isCuda || snapshotBytes === 0 ? '' : ` and snapshots (${inMiB(snapshotBytes)})`;
    const message = `weights (${inMiB(weightsBytes)}), context (${inMiB(cacheBytes)} for ${sequences} sequences of ${contextTokens} tokens)${copies} need ${inMiB(needed)}, but ${inMiB(freeOnDevice)} are free; ask for a smaller context or fewer sequences`;
    throw new EngineFailure('unavailable', message);
  }
  const freeForCopies = isCuda ? freeMemoryBytes() : freeOnDevice - onDevice;
  if (snapshotBytes > freeForCopies) {
    throw new EngineFailure('unavailable', `snapshots need ${inMiB(snapshotBytes)} of memory, which are not free`);
  }
  return options.snapshotBytes ?? usualSnapshotBytes(sequenceBytes, sequences, freeForCopies);
}

const mostUsualBytes = 4 * 2 ** 30;
/** A quarter of the room is the most that one copy gets, so four make room for a whole context. */
const fewestContexts = 4;

/** Twice what the sequences hold, so that two conversations can wait for each that is at work; never what is scarce. */
export const usualSnapshotBytes = (sequenceBytes: number, sequences: number, freeBytes: number): number =>
  Math.floor(Math.min(sequenceBytes * Math.max(fewestContexts, 2 * sequences), mostUsualBytes, freeBytes / 4));

/** In a container the limit counts; what it has cached of files does not, so use against the limit is no measure. */
const freeMemoryBytes = (): number => Math.min(freemem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);

const inMiB = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;
