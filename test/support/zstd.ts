/** Zstandard frames by hand (RFC 8878), since Node 20 cannot write them: raw blocks only. */

const magic = [0x28, 0xb5, 0x2f, 0xfd];

export function zstdFrame(content: Uint8Array): Buffer {
  // Single segment, content size in four bytes.
  const header = Buffer.from([...magic, 0b1010_0000, 0, 0, 0, 0]);
  header.writeUInt32LE(content.length, 5);
  const block = Buffer.alloc(3);
  block.writeUIntLE((content.length << 3) | 1, 0, 3);
  return Buffer.concat([header, block, content]);
}

/** A few bytes that make a decoder reserve a window of the given size. */
export function zstdFrameOfWindow(bytes: number): Buffer {
  const exponent = Math.log2(bytes) - 10;
  return Buffer.from([...magic, 0, exponent << 3, 0b0000_1001, 0, 0, 0x20]);
}
