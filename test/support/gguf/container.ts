/**
 * GGUF version 3, little endian: header, key-value block, tensor records, padding, tensor data.
 * Enough of the format to write test models; llama.cpp itself is the reader that checks it.
 */

export type MetadataValue =
  | { readonly type: 'u32'; readonly value: number }
  | { readonly type: 'f32'; readonly value: number }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'strings'; readonly value: readonly string[] }
  | { readonly type: 'i32s'; readonly value: readonly number[] };

export interface Tensor {
  readonly name: string;
  /** Fastest-varying dimension first. */
  readonly dimensions: readonly number[];
  /** 32-bit floats, or blocks of Q8_0 as they are stored. */
  readonly data: Float32Array | Uint8Array;
}

const alignmentBytes = 32;
const tensorTypes = { f32: 0, q8_0: 8 };
const typeIds = { u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9 } as const;

export function encodeGguf(metadata: ReadonlyMap<string, MetadataValue>, tensors: readonly Tensor[]): Buffer {
  const header = Buffer.concat([Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(metadata.size)]);
  const pairs = [...metadata].flatMap(([key, value]) => [text(key), ...metadataValue(value)]);
  const { records, data } = layOut(tensors);
  const head = Buffer.concat([header, ...pairs, ...records]);
  return Buffer.concat([head, padding(head.length), ...data]);
}

function layOut(tensors: readonly Tensor[]): { records: Buffer[]; data: Buffer[] } {
  const records: Buffer[] = [];
  const data: Buffer[] = [];
  let offsetBytes = 0;
  for (const tensor of tensors) {
    const bytes = Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
    const filler = padding(bytes.length);
    records.push(text(tensor.name), u32(tensor.dimensions.length), ...tensor.dimensions.map(u64));
    records.push(u32(tensor.data instanceof Float32Array ? tensorTypes.f32 : tensorTypes.q8_0), u64(offsetBytes));
    data.push(bytes, filler);
    offsetBytes += bytes.length + filler.length;
  }
  return { records, data };
}

function metadataValue(entry: MetadataValue): Buffer[] {
  switch (entry.type) {
    case 'u32':
      return [u32(typeIds.u32), u32(entry.value)];
    case 'f32':
      return [u32(typeIds.f32), f32(entry.value)];
    case 'bool':
      return [u32(typeIds.bool), Buffer.from([entry.value ? 1 : 0])];
    case 'string':
      return [u32(typeIds.string), text(entry.value)];
    case 'strings':
      return [u32(typeIds.array), u32(typeIds.string), u64(entry.value.length), ...entry.value.map(text)];
    case 'i32s':
      return [u32(typeIds.array), u32(typeIds.i32), u64(entry.value.length), ...entry.value.map(i32)];
  }
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function i32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function f32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([u64(bytes.length), bytes]);
}

const padding = (lengthBytes: number): Buffer =>
  Buffer.alloc((alignmentBytes - (lengthBytes % alignmentBytes)) % alignmentBytes);
