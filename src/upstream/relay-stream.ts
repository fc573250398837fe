import type { Usage } from '../cost/usage.ts';
import { UpstreamFailure } from './chat.ts';
import { failureOf, failureOfBody } from './failure.ts';
import { closingPauseMs, type Patience, patiently } from './patience.ts';
import { type ChunkEvent, createRelayReading, type RelayReading } from './relay-reading.ts';
import type { JsonObject } from './relay-request.ts';
import { createFrameBuffer } from './sse.ts';

/**
 * What of a relayed stream reaches the client, in order:
 * - `frames`: whole frames, to be written as they are;
 * - `finish`: a chunk with a finish reason, parsed, so that the server can add to it before it writes it;
 * - `usage`: once, at the end and only if the upstream reported usage: a chunk with empty `choices`, for the ledger
 *   always and for the client where it `wasAskedFor`. Usage never travels in any other event.
 * `[DONE]` and keep-alive comments are not among them: the stream ends when the iteration ends, and the server's own
 * stream writer says so.
 */
export type RelayEvent =
  | ChunkEvent
  | { readonly type: 'usage'; readonly chunk: JsonObject; readonly usage: Usage; readonly wasAskedFor: boolean };

/** @throws UpstreamFailure for an error event, a broken frame, silence and a cut stream; AbortError when cancelled. */
export async function* relayEvents(
  chunks: AsyncIterable<Uint8Array>,
  patience: Patience,
  wasAskedFor: boolean,
): AsyncGenerator<RelayEvent, void> {
  const reading = createRelayReading();
  try {
    yield* passThrough(chunks, patience, reading);
  } catch (thrown) {
    const failure = failureOfBody(thrown, reading.usage);
    if (!reading.complete || !(failure instanceof UpstreamFailure)) throw failure;
  }
  const { usage, usageChunk, complete } = reading;
  if (!complete) throw failureOf('cut_stream', usage);
  if (usage && usageChunk) yield { type: 'usage', chunk: usageChunk, usage, wasAskedFor };
}

async function* passThrough(chunks: AsyncIterable<Uint8Array>, patience: Patience, reading: RelayReading) {
  const buffer = createFrameBuffer();
  for await (const bytes of patiently(chunks, patience)) {
    for (const event of reading.read(buffer.push(bytes))) {
      if (reading.begun) patience.renew();
      yield event;
    }
    if (reading.done) patience.renew(closingPauseMs);
  }
  yield* reading.read(buffer.rest());
}
