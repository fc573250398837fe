/** Length-prefixed JSON over a byte stream: four bytes big endian, then that many bytes of UTF-8. */

export const largestFrameBytes = 16 * 2 ** 20;
const prefixBytes = 4;

export class FrameError extends Error {}

export function encodeFrame(value: unknown): Buffer {
  const body = Buffer.from(JSON.stringify(value), 'utf8');
  if (body.length > largestFrameBytes) throw new FrameError(`a frame of ${body.length} bytes is too large`);
  const frame = Buffer.allocUnsafe(prefixBytes + body.length);
  frame.writeUInt32BE(body.length);
  body.copy(frame, prefixBytes);
  return frame;
}

/** Collects bytes and gives back the frames that are complete. Throws FrameError at the first sign of corruption. */
export function frameDecoder(): (bytes: Buffer) => unknown[] {
  let chunks: Buffer[] = [];
  let held = 0;
  return (bytes) => {
    chunks.push(bytes);
    held += bytes.length;
    const values: unknown[] = [];
    for (let body = nextBody(); body !== undefined; body = nextBody()) values.push(parse(body));
    return values;
  };

  function nextBody(): Buffer | undefined {
    if (held < prefixBytes) return undefined;
    const length = gather(prefixBytes).readUInt32BE(0);
    if (length > largestFrameBytes) throw new FrameError(`a frame claims ${length} bytes`);
    if (held < prefixBytes + length) return undefined;
    const all = gather(prefixBytes + length);
    const rest = all.subarray(prefixBytes + length);
    chunks = rest.length > 0 ? [rest] : [];
    held = rest.length;
    return all.subarray(prefixBytes, prefixBytes + length);
  }

  /** Joins chunks only when the wanted bytes span several, so that a large frame is copied once. */
  function gather(length: number): Buffer {
    if ((chunks[0]?.length ?? 0) < length) chunks = [Buffer.concat(chunks)];
    return chunks[0] ?? Buffer.alloc(0);
  }
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch (error) {
    throw new FrameError('a frame is not JSON', { cause: error });
  }
}
