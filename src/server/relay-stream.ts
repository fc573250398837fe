import type { FastifyReply } from 'fastify';
import type { Usage } from '../cost/usage.ts';
import { isObject, type JsonObject } from '../upstream/relay-request.ts';
import type { RelayEvent } from '../upstream/relay-stream.ts';
import { endFailed, type Relaying } from './relay-failure.ts';
import { recordRelay, relayedUsage, relayReport } from './relay-record.ts';
import { createStreamWriter, frame, type StreamWriter } from './stream-writer.ts';

/** What a stream has shown so far, for the money of one that is cut off and for its last words. */
interface Progress {
  frames: number;
  bytes: number;
  /** Length of the first frame, which says nothing: what every frame weighs beside its text. */
  emptyFrameBytes: number;
  /** The last finish chunk, kept back because the report travels on it. */
  finish: JsonObject | undefined;
  usage: { readonly chunk: JsonObject; readonly usage: Usage; readonly wasAskedFor: boolean } | undefined;
}

/** Passes an upstream's events on as they come, and adds the report to the last. */
export async function passStream(relaying: Relaying, events: AsyncIterable<RelayEvent>): Promise<FastifyReply> {
  const { reply, parts } = relaying;
  const writer = createStreamWriter(reply, undefined, parts.timings);
  const progress: Progress = { frames: 0, bytes: 0, emptyFrameBytes: 0, finish: undefined, usage: undefined };
  try {
    for await (const event of events) await passEvent(event, writer, progress);
  } catch (thrown) {
    const error = endFailed(relaying, thrown, writtenBytes(progress));
    writer.abandon();
    if (!writer.isOpen()) throw error;
    await writer.fail(error);
    return reply;
  }
  await conclude(relaying, writer, progress);
  return reply;
}

async function passEvent(event: RelayEvent, writer: StreamWriter, progress: Progress): Promise<void> {
  if (event.type === 'usage') {
    progress.usage = event;
    return;
  }
  if (progress.finish) await writer.raw(frame(progress.finish));
  progress.finish = undefined;
  if (event.type === 'finish') {
    const { content, finish } = splitFinish(event.chunk);
    if (content) await writer.raw(frame(content));
    progress.finish = finish;
    return;
  }
  count(event.bytes, progress);
  await writer.raw(event.bytes);
}

/** Some upstreams glue the last words to the finish reason, where some clients do not read them. */
function splitFinish(chunk: JsonObject): { readonly content?: JsonObject; readonly finish: JsonObject } {
  const choices = (Array.isArray(chunk['choices']) ? chunk['choices'] : []).filter(isObject);
  const speaks = choices.some(({ delta }) => isObject(delta) && Object.entries(delta).some(isSaid));
  if (!speaks) return { finish: chunk };
  return {
    content: { ...chunk, choices: choices.map((choice) => ({ ...choice, finish_reason: null })) },
    finish: { ...chunk, choices: choices.map((choice) => ({ ...choice, delta: {} })) },
  };
}

const isSaid = ([key, value]: [string, unknown]): boolean => key !== 'role' && value !== null && value !== '';

function count(bytes: Buffer, progress: Progress): void {
  const before = progress.frames;
  for (let at = bytes.indexOf('\n\n'); at >= 0; at = bytes.indexOf('\n\n', at + 2)) {
    if (progress.frames === 0) progress.emptyFrameBytes = at;
    progress.frames += 1;
  }
  // Frames that end in CRLF count one a read and with all their weight, which errs on the high side.
  if (progress.frames === before) progress.frames += 1;
  progress.bytes += bytes.length;
}

/** Most upstreams send a token a frame, some send more: the larger of the two estimates, at three letters a token. */
const writtenBytes = ({ frames, bytes, emptyFrameBytes }: Progress): number =>
  Math.max(3 * Math.max(0, frames - 1), bytes - frames * emptyFrameBytes);

async function conclude({ charge, facts, parts, strict }: Relaying, writer: StreamWriter, progress: Progress) {
  const { usage, finish } = progress;
  const bill = usage ? charge.settle(usage.usage) : charge.settleEstimated(writtenBytes(progress));
  const record = recordRelay(facts, bill, undefined, parts);
  const report = relayReport(record, strict);
  const onUsage = usage?.wasAskedFor === true;
  if (finish) await writer.raw(frame(onUsage ? finish : { ...finish, ...report }));
  if (usage && onUsage) {
    const shown = relayedUsage(usage.chunk['usage'], record, parts, strict);
    await writer.raw(frame({ ...usage.chunk, usage: shown, ...report }));
  }
  await writer.end();
}
