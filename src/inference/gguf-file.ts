import { open } from 'node:fs/promises';
import { type GgufFileInfo, readGgufFileInfo } from 'node-llama-cpp';
import { z } from 'zod';
import { EngineFailure } from './engine.ts';

/** What the header of a weights file says, read before llama.cpp sees it, whose own errors say nothing. */
export interface GgufFacts {
  readonly architecture: string;
  readonly trainedContextTokens: number;
  readonly fileBytes: number;
  /** Keys and values of one token in all layers, at 16 bits. */
  readonly cacheBytesPerToken: number;
}

const headerBytes = 24;
/** The smallest record: a key of length 0 with its length, a type and one byte; a tensor needs more. */
const smallestRecordBytes = 13;
const cacheBytesPerValue = 2;

// Large, and not needed for any fact.
const ignoreKeys = ['tokens', 'scores', 'token_type', 'merges'].map((key) => `tokenizer.ggml.${key}`);

export async function readGgufFacts(path: string): Promise<GgufFacts> {
  const { fileBytes, info } = await readInfo(path);
  if (isAdapter(info)) throw unusable(path, 'it is an adapter; name it beside the model it was made for');
  return { architecture: architectureOf(info), fileBytes, ...dimensions(path, info) };
}

/** A LoRA file for a base of this architecture. Whether its matrices fit is for llama.cpp to say. */
export async function checkAdapterFile(path: string, architecture: string): Promise<void> {
  const { info } = await readInfo(path);
  if (!isAdapter(info)) throw unusable(path, 'it is no adapter');
  const own = architectureOf(info);
  if (own !== architecture) throw unusable(path, `it is an adapter for ${own}, but the model is ${architecture}`);
}

/** The contract that weights say they were trained with, as the trainer writes it: its name, and a hash of its texts. */
export interface TrainedContract {
  readonly name?: string | undefined;
  readonly hash?: string | undefined;
}

const trainedContractKeys = z.object({ contract: z.string().optional(), contract_hash: z.string().optional() });

/** Weights of others say nothing. */
export async function trainedContract(path: string): Promise<TrainedContract> {
  const { metadata } = (await readInfo(path)).info;
  const own: unknown = 'orchestra' in metadata ? metadata.orchestra : undefined;
  const { contract, contract_hash } = trainedContractKeys.safeParse(own).data ?? {};
  return { name: contract, hash: contract_hash };
}

const architectureOf = ({ metadata }: GgufFileInfo): string => String(metadata.general.architecture);

/** The key is missing in the library's types. */
const isAdapter = ({ metadata }: GgufFileInfo): boolean =>
  'type' in metadata.general && metadata.general.type === 'adapter';

async function readInfo(path: string): Promise<{ readonly fileBytes: number; readonly info: GgufFileInfo }> {
  const fileBytes = await checkHeader(path);
  const info = await readGgufFileInfo(path, { sourceType: 'filesystem', logWarnings: false, ignoreKeys }).catch(
    (error: unknown) => {
      throw unusable(path, 'its header is cut or corrupt', error);
    },
  );
  const lastTensorStart = Math.max(0, ...(info.tensorInfo ?? []).map(({ fileOffset }) => Number(fileOffset)));
  if (info.splicedParts === 1 && lastTensorStart >= fileBytes)
    throw unusable(path, 'it is cut: tensor data is missing');
  return { fileBytes, info };
}

async function checkHeader(path: string): Promise<number> {
  const file = await open(path, 'r').catch((error: unknown) => {
    const message = `the weights file ${path} cannot be opened; check the path, or fetch the model first`;
    throw new EngineFailure('unavailable', message, error);
  });
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw unusable(path, 'it is not a file');
    const { buffer, bytesRead } = await file.read(Buffer.alloc(headerBytes), 0, headerBytes, 0);
    const problem = bytesRead < headerBytes ? 'it is too short to be one' : headerProblem(buffer, stats.size);
    if (problem !== undefined) throw unusable(path, problem);
    return stats.size;
  } finally {
    await file.close();
  }
}

function headerProblem(header: Buffer, fileBytes: number): string | undefined {
  if (header.toString('latin1', 0, 4) !== 'GGUF') return 'it is not a GGUF file';
  const version = header.readUInt32LE(4);
  if (version !== 2 && version !== 3) return `its GGUF version ${version} is not supported (2 and 3 are)`;
  const mostRecords = BigInt(Math.floor(fileBytes / smallestRecordBytes));
  if (header.readBigUInt64LE(8) > mostRecords) return 'it claims more tensors than the file has room for';
  if (header.readBigUInt64LE(16) > mostRecords) return 'it claims more metadata than the file has room for';
  return undefined;
}

type Dimensions = Pick<GgufFacts, 'trainedContextTokens' | 'cacheBytesPerToken'>;

function dimensions(path: string, { architectureMetadata }: GgufFileInfo): Dimensions {
  const { attention, block_count: layers, embedding_length: width, context_length } = architectureMetadata ?? {};
  const heads = largest(attention?.head_count);
  const cacheHeads = largest(attention?.head_count_kv) ?? heads;
  if (!layers || !width || !heads || !cacheHeads || !context_length) {
    throw unusable(path, 'its header lacks layer, head or context sizes');
  }
  const headWidth = width / heads;
  const valuesPerHead = (attention?.key_length ?? headWidth) + (attention?.value_length ?? headWidth);
  return {
    trainedContextTokens: context_length,
    cacheBytesPerToken: layers * cacheHeads * valuesPerHead * cacheBytesPerValue,
  };
}

/** Some architectures give one number a layer. */
const largest = (value: number | readonly number[] | undefined): number | undefined =>
  typeof value === 'object' ? Math.max(...value) : value;

const unusable = (path: string, problem: string, cause?: unknown): EngineFailure =>
  new EngineFailure('unavailable', `the weights file ${path} cannot be used: ${problem}`, cause);
