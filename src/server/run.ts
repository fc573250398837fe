import type { FastifyReply, FastifyRequest } from 'fastify';
import { OrchestraError } from '../errors.ts';
import type { RunEvent, RunRecord, RunSpec, RunWarning } from '../router/run.ts';
import { type Answer, createAnswer, finishReasonOf } from './answer.ts';
import { collectPreferences } from './caller-preferences.ts';
import { type PreparedChat, prepareChat } from './chat-request.ts';
import { clientPatienceMs } from './client-patience.ts';
import type { Ticket } from './in-flight.ts';
import type { ServerParts } from './parts.ts';
import { parseChatRequest, type WireFinishReason } from './wire.ts';

/** A chat request on its way through the loop. */
export interface Run {
  readonly parts: ServerParts;
  readonly reply: FastifyReply;
  readonly chat: PreparedChat;
  readonly spec: RunSpec;
  readonly ticket: Ticket;
  /** What the request's own aliases gave cause to say. */
  readonly warnings: readonly RunWarning[];
  readonly strict: boolean;
}

/** Checks everything that can be checked before anything is spent. */
export function prepareRun(
  request: FastifyRequest,
  parts: ServerParts,
  profile: string | undefined,
): Pick<Run, 'chat' | 'warnings'> & { readonly spec: Omit<RunSpec, 'signal'> } {
  const body = parseChatRequest(request.body);
  const chat = prepareChat(body);
  const { caller, headers } = request;
  const { preferences, warnings } = collectPreferences({ body, headers, caller, profile, slots: parts.slots }, parts);
  const spec = {
    runId: `run_${parts.newId()}`,
    keyName: caller.name,
    requestedModel: body.model,
    messages: chat.messages,
    needs: chat.needs,
    preferences,
    maxAnswerTokens: chat.maxAnswerTokens,
    answerOptions: chat.answerOptions,
    streaming: chat.stream,
    // A stream shows signs of life, so its client has nothing to wait for.
    patienceMs: chat.stream ? undefined : clientPatienceMs(headers),
    seed: chat.seed,
  };
  return { chat, spec, warnings };
}

/** Reads a run to its end. When the client is gone, what is left is read all the same, for the money's sake. */
export async function followRun(
  { parts, spec, warnings }: Run,
  onEvent: (event: RunEvent) => Promise<void> | void,
): Promise<RunRecord> {
  const events = parts.orchestrator.run(spec);
  for (;;) {
    const next = await events.next();
    if (!next.done) await onEvent(next.value);
    else return { ...next.value, warnings: [...warnings, ...next.value.warnings] };
  }
}

/** @throws OrchestraError when the run ended without an answer. */
export function throwFailure({ ticket, reply }: Run, record: RunRecord): void {
  if (!record.error) return;
  if (record.cost > 0 && !reply.raw.headersSent) reply.header('x-should-retry', 'false');
  const { code, message, ...options } = record.error;
  throw ticket.stoppedBy() ?? new OrchestraError(code, message, options);
}

export const newAnswer = ({ chat, parts }: Run): Answer =>
  createAnswer({ oneToolCall: chat.oneToolCall, newId: parts.newId });

export function wireReason({ chat }: Run, record: RunRecord, answer: Answer): WireFinishReason {
  const reason = finishReasonOf(record.finishReason, answer.toolCalls().length);
  return reason === 'tool_calls' && chat.legacyFunctions ? 'function_call' : reason;
}

/** Clients read one of the two fields; both would show the thought twice. */
export const reasoningField = ({ spec }: Run): 'reasoning' | 'reasoning_content' =>
  spec.preferences.progress === 'reasoning' ? 'reasoning' : 'reasoning_content';
