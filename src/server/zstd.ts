import { Decompress } from 'fzstd';
import { OrchestraError } from '../errors.ts';

const magic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** Windows that ordinary compression levels need even for small bodies. */
const windowAllowanceBytes = 8 * 1024 * 1024;

/** Node 20 has no zstd of its own, and the decoder in use bounds neither its output nor its memory: this does. */
export function decodeZstd(bytes: Buffer, maxOutputLength: number): Uint8Array {
  const tooLarge = () => new OrchestraError('payload_too_large', `The body is larger than ${maxOutputLength} bytes.`);
  if (declaredWindowBytes(bytes) > maxOutputLength + windowAllowanceBytes) throw tooLarge();
  const parts: Uint8Array[] = [];
  let length = 0;
  const decoder = new Decompress((part) => {
    length += part.length;
    if (length > maxOutputLength) throw tooLarge();
    // The decoder goes on to write into what it handed over.
    parts.push(part.slice());
  });
  decoder.push(bytes, true);
  return Buffer.concat(parts, length);
}

/** What the decoder will allocate for all frames together, read from their headers (RFC 8878, 3.1.1.1). */
function declaredWindowBytes(bytes: Buffer): number {
  let total = 0;
  for (let at = bytes.indexOf(magic); at >= 0; at = bytes.indexOf(magic, at + magic.length)) {
    const descriptor = bytes[at + 4] ?? 0;
    const singleSegment = (descriptor & 0x20) !== 0;
    total += singleSegment ? contentBytes(bytes, at + 5, descriptor) : windowBytes(bytes[at + 5] ?? 0);
  }
  return total;
}

function windowBytes(descriptor: number): number {
  const base = 2 ** (10 + (descriptor >> 3));
  return base + (base / 8) * (descriptor & 7);
}

/** Size of a single-segment frame, which is its window; the field follows an optional dictionary id. */
function contentBytes(bytes: Buffer, at: number, descriptor: number): number {
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  const fieldBytes = [1, 2, 4, 8][descriptor >> 6] ?? 1;
  let size = 0;
  for (let i = fieldBytes - 1; i >= 0; i--) size = size * 256 + (bytes[at + dictionaryBytes + i] ?? 0);
  return fieldBytes === 2 ? size + 256 : size;
}
