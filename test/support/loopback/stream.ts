import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ReceivedRequest } from './listener.ts';

/** How a stream of events travels and where it breaks. Everything left out is well-behaved. */
export interface StreamShape {
  readonly headers?: Readonly<Record<string, string>>;
  readonly firstChunkDelayMs?: number;
  readonly chunkDelayMs?: number;
  /** Splits the stream into TCP writes of so many bytes, in the middle of characters if need be. */
  readonly bytesPerWrite?: number;
  /** Destroys the socket after so many events. */
  readonly cutAfterChunks?: number;
  /** Falls silent after so many events and keeps the socket open; 0 sends headers only. */
  readonly hangAfterChunks?: number;
}

/** A JSON answer with any status: errors, embeddings, other people's shapes. */
export interface JsonReply {
  readonly kind: 'json';
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Bytes as they are, one TCP write each; then the end, a destroyed socket, or silence. */
export interface RawReply {
  readonly kind: 'raw';
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly writes: readonly (string | Uint8Array)[];
  readonly ending?: 'end' | 'cut' | 'hang';
  readonly pauseMs?: number;
}

/** Sends whole frames, blank line included, one write each. */
export async function streamFrames(
  frames: readonly string[],
  shape: StreamShape,
  request: ReceivedRequest,
  response: ServerResponse,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...shape.headers });
  response.flushHeaders();
  await sleep(shape.firstChunkDelayMs ?? 0);
  const stopAfter = shape.hangAfterChunks ?? shape.cutAfterChunks ?? frames.length;
  for (const frame of frames.slice(0, stopAfter)) {
    if (request.aborted) return;
    await writeSplit(response, frame, shape.bytesPerWrite);
    if (shape.chunkDelayMs) await sleep(shape.chunkDelayMs);
  }
  if (shape.cutAfterChunks !== undefined) request.cut();
  else if (shape.hangAfterChunks === undefined) response.end();
}

export async function sendRaw(reply: RawReply, request: ReceivedRequest, response: ServerResponse): Promise<void> {
  response.writeHead(reply.status ?? 200, { 'content-type': 'text/event-stream', ...reply.headers });
  for (const bytes of reply.writes) {
    await writeAlone(response, bytes);
    if (reply.pauseMs) await sleep(reply.pauseMs);
  }
  if (reply.ending === 'cut') request.cut();
  else if (reply.ending !== 'hang') response.end();
}

async function writeSplit(response: ServerResponse, text: string, bytesPerWrite: number | undefined): Promise<void> {
  const bytes = Buffer.from(text, 'utf8');
  const step = bytesPerWrite ?? bytes.length;
  for (let at = 0; at < bytes.length; at += step) await writeAlone(response, bytes.subarray(at, at + step));
}

/** Waits until the bytes were handed to the socket, so that two writes do not become one, and the reader can brake. */
async function writeAlone(response: ServerResponse, bytes: string | Uint8Array): Promise<void> {
  if (response.destroyed) return;
  await new Promise<void>((resolve) => {
    response.once('close', resolve);
    response.write(bytes, () => {
      response.off('close', resolve);
      resolve();
    });
  });
}
