import type { FastifyReply } from 'fastify';
import type { RunRecord } from '../router/run.ts';
import type { Answer } from './answer.ts';
import { citationsOf } from './citations.ts';
import { keepTexts } from './kept-texts.ts';
import { budgetHeader, costHeader, inlineReport, usageOf, withoutCost } from './report.ts';
import { followRun, newAnswer, type Run, reasoningField, throwFailure, wireReason } from './run.ts';
import type { StreamIdentity } from './stream-writer.ts';
import { sendWhole } from './whole-answer.ts';
import type { WireCompletion, WireMessage } from './wire.ts';

/** Answers in one piece, with an honest status at the end. */
export async function answerWhole(run: Run, identity: StreamIdentity): Promise<FastifyReply> {
  const { reply, strict, parts, spec } = run;
  const answer = newAnswer(run);
  const record = await followRun(run, (event) => {
    if (event.type === 'answer-delta') answer.accept(event.delta);
  });
  answer.finish();
  keepTexts(run, record, answer.text());
  throwFailure(run, record);
  if (!strict) reply.headers({ ...costHeader(record), ...budgetHeader(parts.ledger, spec) });
  const body = JSON.stringify(completionOf(run, identity, record, answer));
  return sendWhole(reply, { body, privacy: record.privacy });
}

function completionOf(run: Run, identity: StreamIdentity, record: RunRecord, answer: Answer): WireCompletion {
  const usage = usageOf(record, run.parts.prices);
  const { metadata } = run.chat;
  const finish_reason = wireReason(run, record, answer);
  return {
    ...identity,
    object: 'chat.completion',
    service_tier: null,
    choices: [{ index: 0, message: messageOf(run, record, answer), logprobs: null, finish_reason }],
    usage: run.strict ? withoutCost(usage) : usage,
    ...(run.strict || Object.keys(metadata).length === 0 ? {} : { metadata }),
    ...(run.strict ? {} : { x_orchestra: inlineReport(record) }),
  };
}

function messageOf(run: Run, record: RunRecord, answer: Answer): WireMessage {
  const toolCalls = answer.toolCalls();
  const text = answer.text();
  const reasoning = answer.reasoning();
  const firstCall = toolCalls[0];
  const annotations = citationsOf(record);
  return {
    role: 'assistant',
    // Without calls an empty answer is "", since null there makes agent loops spin.
    content: text === '' && firstCall ? null : text,
    refusal: null,
    ...(reasoning === '' || run.strict ? {} : { [reasoningField(run)]: reasoning }),
    ...(annotations.length > 0 ? { annotations } : {}),
    ...(firstCall && run.chat.legacyFunctions ? { function_call: firstCall.function } : {}),
    ...(firstCall && !run.chat.legacyFunctions ? { tool_calls: toolCalls } : {}),
  };
}
