import { performance } from 'node:perf_hooks';
import type { Observation } from '../contract/evidence.ts';
import { type Hold, isRefusal } from '../cost/ledger.ts';
import { type NanoUsd, zeroUsd } from '../cost/money.ts';
import type { MeteredUsage } from '../cost/usage.ts';
import type { ToolOutcome } from '../tools/tool.ts';
import type { CallTime } from '../upstream/call-time.ts';
import { abandonedUsage } from './affordable.ts';
import { type AnswerWriter, createAnswerWriter, type Hearing } from './answer-writer.ts';
import type { Choice } from './choose.ts';
import type { RunError, RunEvent, TurnRecord } from './run.ts';
import type { RunState } from './run-state.ts';
import type { TurnOption } from './turn-option.ts';

/** What was decided this turn, and by whom. */
export interface TurnPlan {
  readonly turn: number;
  readonly choice: Choice<TurnOption>;
  readonly decidedBy: string;
  readonly ruledOut: TurnRecord['ruledOut'];
}

interface Deed {
  readonly outcome: string;
  readonly cost: NanoUsd | undefined;
  /** Nothing was done, and nobody failed: the money went to somebody else meanwhile. */
  readonly cameLate?: boolean;
}

/**
 * Does what was decided: hold, execute, settle, observe. The record is in `state.turns` afterwards, however it ends.
 * @returns false when the turn may be taken again: without the chosen slot, which failed, or with the money that is left.
 */
export async function* act(plan: TurnPlan, state: RunState): AsyncGenerator<RunEvent, boolean> {
  const { candidate } = plan.choice;
  const startedAtMs = performance.now();
  let deed: Deed = { outcome: 'cut off', cost: undefined };
  try {
    deed = candidate.delivers ? yield* deliver(candidate, state) : yield* holdAndExecute(candidate, state);
  } finally {
    state.turns.push(recordOf(plan, deed, performance.now() - startedAtMs));
  }
  return !deed.cameLate && !state.failures.has(candidate.slot.id);
}

/** Hands out an attempt that was paid for when it was made. */
function* deliver({ delivers, slot }: TurnOption, state: RunState): Generator<RunEvent, Deed> {
  const text = delivers?.text ?? '';
  state.textSent = true;
  yield { type: 'answer-delta', delta: { type: 'text', text } };
  state.deliver(delivers?.id ?? '', slot);
  return { outcome: 'delivered', cost: zeroUsd };
}

async function* holdAndExecute(option: TurnOption, state: RunState): AsyncGenerator<RunEvent, Deed> {
  const { callTime } = option.input;
  const bound = option.tool.bound(option.input);
  const hold = state.budget.hold(bound, option.keepBack);
  if (isRefusal(hold)) return { outcome: 'not affordable', cost: zeroUsd, cameLate: true };
  const writer = createAnswerWriter(hearingOf(option, state));
  let outcome: ToolOutcome | undefined;
  try {
    outcome = yield* writer.relay(option.tool, option.input);
  } finally {
    state.textSent ||= writer.committed();
    // The tool was cut off, and what it consumed is unknown: what it was given and what it wrote is booked.
    if (outcome === undefined) close(state, hold, abandonedUsage(bound, writer.bytes(), callTime.ms()));
  }
  const cost = close(state, hold, consumed(outcome, bound, writer, callTime));
  conclude(option, outcome, state, writer);
  if (state.answer) yield* writer.flush();
  return { outcome: describe(outcome.observation, option), cost };
}

function hearingOf({ role }: TurnOption, { spec }: RunState): Hearing {
  if (role === 'attempt') return 'kept';
  return spec.streaming ? 'live' : 'whole';
}

/** A failed call that wrote something was billed something, whether or not the upstream said so. */
function consumed(
  { usage }: ToolOutcome,
  bound: readonly MeteredUsage[],
  writer: AnswerWriter,
  callTime: CallTime,
): readonly MeteredUsage[] {
  return usage.length === 0 && writer.bytes() > 0 ? abandonedUsage(bound, writer.bytes(), callTime.ms()) : usage;
}

function close(state: RunState, hold: Hold, usage: readonly MeteredUsage[]): NanoUsd | undefined {
  if (usage.length === 0) {
    state.budget.release(hold);
    return zeroUsd;
  }
  const priced = state.budget.settle(hold, usage);
  state.book(priced.lines);
  if (priced.overrun)
    state.warn('upstream_overrun', 'An upstream billed more than it was allowed to; it was booked in full.');
  return priced.known ? priced.total : undefined;
}

function conclude(option: TurnOption, outcome: ToolOutcome, state: RunState, writer: AnswerWriter): void {
  const { observation, schemaReason } = outcome;
  if (observation.kind === 'failed') {
    state.giveUp(option.slot, observation);
    state.schemaReason ??= schemaReason;
    if (writer.committed()) state.error = brokenOff(option.slot.id, observation.reason);
  } else if (observation.kind === 'answer') concludeAnswer(option, observation.text, outcome, state, writer);
  else state.observe(observation, option.slot);
}

const brokenOff = (slot: string, reason: string): RunError => ({
  code: 'upstream_failed',
  message: `The answer broke off (${slot}: ${reason}).`,
});

function concludeAnswer(
  { role, slot, input, wantedOutputTokens }: TurnOption,
  text: string,
  { usage, finishReason = 'stop', missesFormat = false, ownShare }: ToolOutcome,
  state: RunState,
  writer: AnswerWriter,
): void {
  const clientUsage = state.clientUsage(usage[0]?.usage, writer.bytes(), ownShare);
  const answer = { slot, finishReason, missesFormat, usage: clientUsage };
  if (role === 'attempt') {
    state.keepAttempt(text, answer);
    return;
  }
  state.conclude(answer);
  if (finishReason === 'length' && input.maxOutputTokens < wantedOutputTokens) {
    state.forcedBy ??= 'max_cost_usd';
    state.warn('answer_capped', 'The answer was cut where the money for it ended.');
  }
}

function describe(observation: Observation, { role }: TurnOption): string {
  if (observation.kind === 'failed') return `failed: ${observation.reason}`;
  if (observation.kind === 'documents') return `documents: ${observation.documents.length}`;
  if (observation.kind === 'code_run') return 'code ran';
  return role === 'attempt' ? 'attempted' : 'answered';
}

function recordOf(plan: TurnPlan, { outcome, cost }: Deed, latencyMs: number): TurnRecord {
  const { candidate, probability, records } = plan.choice;
  return {
    turn: plan.turn,
    role: candidate.role,
    slot: candidate.id,
    model: candidate.slot.model,
    probability,
    candidates: records,
    decidedBy: plan.decidedBy,
    expectedCost: candidate.expectedCost,
    expectedLatencyMs: candidate.expectedLatencyMs,
    cost,
    latencyMs: Math.round(latencyMs),
    outcome,
    ruledOut: plan.ruledOut,
  };
}
