import type { FastifyReply } from 'fastify';
import { OrchestraError, toOrchestraError } from '../errors.ts';
import type { RunEvent } from '../router/run.ts';
import type { ChatDelta } from '../upstream/chat.ts';
import { citationsOf } from './citations.ts';
import { keepTexts } from './kept-texts.ts';
import { liveEvent, progressLine } from './progress.ts';
import { inlineReport, usageOf, withoutCost } from './report.ts';
import { followRun, newAnswer, type Run, reasoningField, throwFailure, wireReason } from './run.ts';
import { createStreamWriter, type StreamIdentity, type StreamWriter } from './stream-writer.ts';
import type { WireDelta } from './wire.ts';

/** Answers as it is written. A failure before the first byte still has its status; one after it is an event. */
export async function answerStreamed(run: Run, identity: StreamIdentity): Promise<FastifyReply> {
  const { reply, parts, spec } = run;
  const writer = createStreamWriter(reply, identity, parts.timings);
  try {
    await tell(run, writer);
  } catch (thrown) {
    const error = toOrchestraError(thrown);
    if (!writer.isOpen()) throw error;
    await writer.fail(withRunId(error, spec.runId));
  } finally {
    writer.abandon();
  }
  return reply;
}

async function tell(run: Run, writer: StreamWriter): Promise<void> {
  const { chat, strict, parts } = run;
  const answer = newAnswer(run);
  const tellDelta = async (delta: ChatDelta): Promise<void> => {
    const wire = wireDelta(run, delta);
    if (wire) await writer.delta(wire);
  };
  const record = await followRun(run, async (event) => {
    if (event.type !== 'answer-delta') await tellWork(run, writer, event, answer.text() === '');
    else for (const delta of answer.accept(event.delta)) await tellDelta(delta);
  });
  const rest = answer.finish();
  keepTexts(run, record, answer.text());
  throwFailure(run, record);
  for (const delta of rest) await tellDelta(delta);
  const annotations = citationsOf(record);
  if (annotations.length > 0) await writer.delta({ annotations });
  const report = strict ? {} : { x_orchestra: inlineReport(record) };
  await writer.finish(wireReason(run, record, answer), chat.includeUsage ? {} : report);
  if (chat.includeUsage) {
    const usage = usageOf(record, parts.prices);
    await writer.usage(strict ? withoutCost(usage) : usage, report);
  }
  await writer.end();
}

/** What the caller asked to see of the work before the answer. */
async function tellWork(
  run: Run,
  writer: StreamWriter,
  event: Exclude<RunEvent, { type: 'answer-delta' }>,
  beforeText: boolean,
): Promise<void> {
  if (run.strict) return;
  const { explain, progress } = run.spec.preferences;
  if (explain === 'full') {
    await writer.aside({ x_orchestra: { version: 1, run_id: run.spec.runId, event: liveEvent(event) } });
  }
  const line = progress === 'none' || !beforeText ? undefined : progressLine(event);
  if (line !== undefined) await writer.delta({ [reasoningField(run)]: line });
}

function wireDelta(run: Run, delta: ChatDelta): WireDelta | undefined {
  if (delta.type === 'text') return { content: delta.text };
  if (delta.type === 'reasoning') return run.strict ? undefined : { [reasoningField(run)]: delta.text };
  const { index, id, name, argumentsDelta } = delta;
  const called = { ...(name === undefined ? {} : { name }), arguments: argumentsDelta };
  if (run.chat.legacyFunctions) return { function_call: called };
  const opening = id === undefined ? {} : { id, type: 'function' as const };
  return { tool_calls: [{ index, ...opening, function: called }] };
}

/** Headers are long gone, so the message says where to look. */
const withRunId = ({ code, message, param, details, cause }: OrchestraError, runId: string): OrchestraError =>
  new OrchestraError(code, `${message} (${runId})`, {
    ...(param === undefined ? {} : { param }),
    ...(details === undefined ? {} : { details }),
    cause,
  });
