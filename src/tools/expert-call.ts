import type { FailedObservation } from '../contract/evidence.ts';
import { type MeteredUsage, type Usage, usageOf } from '../cost/usage.ts';
import { cacheMarkIn, promptUsage } from '../upstream/cache-marks.ts';
import { type CallTime, createCallTime } from '../upstream/call-time.ts';
import { type ChatDelta, type FailureKind, type FinishReason, UpstreamFailure } from '../upstream/chat.ts';
import { type PictureReader, unwrittenIn, unwrittenTokens } from '../upstream/unwritten-input.ts';
import { throwIfCancelled } from './cancelled.ts';
import type { Expert, ExpertRequest } from './expert.ts';

/** What came of one call to an expert. */
export interface ExpertReply {
  readonly text: string;
  readonly finishReason: FinishReason | undefined;
  readonly usage: MeteredUsage;
  /** Set when the call failed; `text` is then what had been written. */
  readonly failure: FailedObservation | undefined;
  /** Why the schema of the answer was refused; see `UpstreamFailure`. */
  readonly schemaReason?: string | undefined;
}

/** Who is called: a slot, or whatever else has a meter for an id. */
type Callee = PictureReader & { readonly id: string };

/**
 * Calls an expert, yields its deltas and returns the whole: failures as data, usage in every case.
 * @throws AbortError when the signal fires
 */
export async function* callExpert(
  expert: Expert,
  request: ExpertRequest,
  callee: Callee,
): AsyncGenerator<ChatDelta, ExpertReply> {
  const { callTime = createCallTime(Number.MAX_SAFE_INTEGER) } = request;
  const timed = (reply: ExpertReply): ExpertReply => ({ ...reply, usage: withTime(reply.usage, callTime) });
  const written = { text: '', bytes: 0, calledTools: false };
  try {
    for await (const event of expert.complete({ ...request, callTime })) {
      if (event.type === 'end') return timed(finished(event.finishReason, event.usage, written, request, callee));
      note(event, written);
      yield event;
    }
    throw new UpstreamFailure('cut_stream', 'The expert stopped without an end.');
  } catch (thrown) {
    throwIfCancelled(request.signal);
    if (!(thrown instanceof UpstreamFailure)) throw thrown;
    return timed({
      text: written.text,
      finishReason: undefined,
      usage: failedUsage(thrown, written.bytes, request, callee),
      failure: observationOf(thrown),
      schemaReason: thrown.reason,
    });
  }
}

/** Whatever came of a call, whoever worked on it worked so long. */
const withTime = ({ usage, ...metered }: MeteredUsage, callTime: CallTime): MeteredUsage => ({
  ...metered,
  usage: { ...usage, durationMs: callTime.ms() },
});

/** For calls whose text nobody watches being written. */
export async function expertReply(expert: Expert, request: ExpertRequest, callee: Callee): Promise<ExpertReply> {
  const call = callExpert(expert, request, callee);
  for (;;) {
    const step = await call.next();
    if (step.done) return step.value;
  }
}

interface Written {
  text: string;
  /** Reasoning and tool calls included. */
  bytes: number;
  calledTools: boolean;
}

function note(delta: ChatDelta, written: Written): void {
  if (delta.type === 'text') written.text += delta.text;
  if (delta.type === 'tool_call') written.calledTools = true;
  const all = delta.type === 'tool_call' ? `${delta.name ?? ''}${delta.argumentsDelta}` : delta.text;
  written.bytes += Buffer.byteLength(all);
}

function finished(
  finishReason: FinishReason,
  usage: Usage | undefined,
  { text, bytes, calledTools }: Written,
  request: ExpertRequest,
  callee: Callee,
): ExpertReply {
  const isEmpty = text.trim() === '' && !calledTools;
  return {
    text,
    finishReason,
    usage: usage ? { meter: callee.id, usage } : estimate(request, bytes, callee),
    failure: isEmpty ? { kind: 'failed', reason: 'The expert wrote nothing.', retryable: true } : undefined,
  };
}

/** Refusals take no tokens; a call that broke off was worked on, and that is billed whether or not it is reported. */
function failedUsage(
  { kind, usage }: UpstreamFailure,
  writtenBytes: number,
  request: ExpertRequest,
  callee: Callee,
): MeteredUsage {
  if (usage) return { meter: callee.id, usage };
  const workedOn = writtenBytes > 0 || kind === 'timeout' || kind === 'cut_stream' || kind === 'malformed';
  return workedOn ? estimate(request, writtenBytes, callee) : { meter: callee.id, usage: usageOf({}) };
}

/** Tokens are about four bytes of English and fewer of most else; counting three errs on the dear side. */
const bytesPerToken = 3;

/** Never above what was held: no answer has more tokens than it may, and no prompt more than the model's window. */
function estimate(
  { messages, options, maxOutputTokens }: ExpertRequest,
  writtenBytes: number,
  callee: Callee,
): MeteredUsage {
  const unwritten = unwrittenIn({ messages });
  // Tools and schemas are read, and billed, like messages.
  const textBytes = Buffer.byteLength(JSON.stringify([messages, options])) - unwritten.inlineBytes;
  const promptTokens = Math.ceil(textBytes / bytesPerToken) + unwrittenTokens(unwritten, callee);
  const outputTokens = Math.min(maxOutputTokens, Math.ceil(writtenBytes / bytesPerToken));
  const prompt = promptUsage(
    Math.min(promptTokens, callee.windowTokens ?? promptTokens),
    cacheMarkIn([messages, options]),
  );
  return { meter: callee.id, usage: usageOf({ ...prompt, outputTokens, calls: 1 }), estimated: true };
}

function observationOf({ kind, message, retryAfterMs }: UpstreamFailure): FailedObservation {
  const wait = retryAfterMs === undefined ? {} : { retryAfterMs };
  return { kind: 'failed', reason: message, retryable: retryable[kind], failure: kind, ...wait };
}

const retryable: Record<FailureKind, boolean> = {
  rate_limited: true,
  server_error: true,
  timeout: true,
  connection: true,
  cut_stream: true,
  malformed: true,
  unauthorized: false,
  context_length_exceeded: false,
  rejected: false,
  schema_refused: false,
};
