/**
 * Server-sent events as bytes. A frame is everything up to and with a blank line; lines end in LF or CRLF. Frames are
 * cut at ASCII bytes before anything is decoded, so a character that two network reads share is never broken.
 */

/** Longest frame that is buffered; images travel inside frames, so it is generous. */
const defaultMaxFrameBytes = 8 * 1024 * 1024;

export class FrameTooLargeError extends Error {
  constructor(maxFrameBytes: number) {
    super(`a server-sent event is longer than ${maxFrameBytes} bytes`);
    this.name = 'FrameTooLargeError';
  }
}

interface FrameBuffer {
  /** Everything that is complete by now: whole frames, or empty. May share memory with `bytes`. */
  push(bytes: Uint8Array): Buffer;
  /** At the end of the stream: a last frame that lacks only its blank line, or empty. A cut frame is not returned. */
  rest(): Buffer;
}

const nothing = Buffer.alloc(0);
const lineFeed = 10;

/** Collects network reads until frames are complete, copying each byte at most a constant number of times. */
export function createFrameBuffer(maxFrameBytes: number = defaultMaxFrameBytes): FrameBuffer {
  let store = nothing;
  let used = 0;

  function keep(bytes: Buffer): void {
    if (used + bytes.length > maxFrameBytes) throw new FrameTooLargeError(maxFrameBytes);
    if (used + bytes.length > store.length) {
      const larger = Buffer.allocUnsafe(Math.max(2 * store.length, used + bytes.length));
      store.copy(larger, 0, 0, used);
      store = larger;
    }
    bytes.copy(store, used);
    used += bytes.length;
  }

  /** Where the last complete frame ends inside `bytes`, counting a blank line that began in the store; 0 if nowhere. */
  function completeUntil(bytes: Buffer): number {
    const inside = lastFrameEnd(bytes);
    if (inside > 0 || used === 0) return inside;
    const before = store.subarray(Math.max(0, used - 2), used);
    const atSeam = lastFrameEnd(Buffer.concat([before, bytes.subarray(0, 2)]));
    return Math.max(0, atSeam - before.length);
  }

  return {
    push(chunk) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      const end = completeUntil(bytes);
      if (end === 0) {
        keep(bytes);
        return nothing;
      }
      const complete = bytes.subarray(0, end);
      const region = used === 0 ? complete : Buffer.concat([store.subarray(0, used), complete]);
      used = 0;
      if (end < bytes.length) keep(bytes.subarray(end));
      return region;
    },
    rest() {
      const last = store.subarray(0, used);
      return last.at(-1) === lineFeed ? last : nothing;
    },
  };
}

function lastFrameEnd(bytes: Buffer): number {
  const lf = bytes.lastIndexOf('\n\n');
  const crlf = bytes.lastIndexOf('\n\r\n');
  return Math.max(lf < 0 ? 0 : lf + 2, crlf < 0 ? 0 : crlf + 3);
}

/** The frames of a region that `push` returned, raw, each with its blank line. */
export function splitFrames(region: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  let lf = region.indexOf('\n\n');
  let crlf = region.indexOf('\n\r\n');
  for (let at = 0; at < region.length; ) {
    if (lf >= 0 && lf < at) lf = region.indexOf('\n\n', at);
    if (crlf >= 0 && crlf < at) crlf = region.indexOf('\n\r\n', at);
    const end = Math.min(lf < 0 ? region.length : lf + 2, crlf < 0 ? region.length : crlf + 3);
    frames.push(region.subarray(at, end));
    at = end;
  }
  return frames;
}

/** The `data` of a frame; undefined for comments, empty data and other fields alone. */
export function dataOf(frame: Buffer): string | undefined {
  const lines = frame
    .toString('utf8')
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/);
  const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(line[5] === ' ' ? 6 : 5));
  return data.join('\n') || undefined;
}

/** The data of every frame of a stream, in order, as many at a time as came in together. */
export async function* readData(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string[], void> {
  const buffer = createFrameBuffer();
  for await (const chunk of chunks) {
    const region = buffer.push(chunk);
    if (region.length > 0) yield dataIn(region);
  }
  yield dataIn(buffer.rest());
}

const dataIn = (region: Buffer): string[] => splitFrames(region).flatMap((frame) => dataOf(frame) ?? []);
