import { performance } from 'node:perf_hooks';
import type { FailedObservation, Observation } from '../contract/evidence.ts';
import { type Hold, isRefusal } from '../cost/ledger.ts';
import type { NanoUsd } from '../cost/money.ts';
import { zeroUsd } from '../cost/money.ts';
import type { MeteredUsage } from '../cost/usage.ts';
import type { ToolOutcome } from '../tools/tool.ts';
import type { ChatDelta } from '../upstream/chat.ts';
import { abandonedUsage } from './affordable.ts';
import type { Choice } from './choose.ts';
import type { TurnOption } from './options.ts';
import type { ClientUsage, RunEvent, TurnRecord } from './run.ts';
import type { RunState } from './run-state.ts';

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
}

/**
 * Does what was decided: hold, execute, settle, observe. The record is in `state.turns` afterwards, however it ends.
 * @returns false when the chosen slot failed, so that the turn may be taken again without it.
 */
export async function* act(plan: TurnPlan, state: RunState): AsyncGenerator<RunEvent, boolean> {
  const startedAtMs = performance.now();
  let deed: Deed = { outcome: 'cut off', cost: undefined };
  try {
    deed = yield* holdAndExecute(plan.choice.candidate, state);
  } finally {
    state.turns.push(recordOf(plan, deed, performance.now() - startedAtMs));
  }
  return !state.failures.has(plan.choice.candidate.slot.id);
}

async function* holdAndExecute(option: TurnOption, state: RunState): AsyncGenerator<RunEvent, Deed> {
  const bound = option.tool.bound(option.input);
  const hold = state.budget.hold(bound, option.keepBack);
  if (isRefusal(hold)) {
    state.giveUp(option.slot, { kind: 'failed', reason: 'not affordable any more', retryable: false });
    return { outcome: 'not affordable', cost: zeroUsd };
  }
  const writer = createAnswerWriter(state.spec.streaming);
  let outcome: ToolOutcome | undefined;
  try {
    outcome = yield* writer.relay(option, state);
  } finally {
    // The tool was cut off: what it consumed is unknown, so the upper bound of what it wrote is booked.
    if (outcome === undefined) close(state, hold, abandonedUsage(bound, writer.codePoints()));
  }
  const cost = close(state, hold, consumed(outcome, bound, writer.codePoints()));
  conclude(option, outcome, state, writer.codePoints());
  if (state.answer) yield* writer.flush();
  return { outcome: describe(outcome.observation), cost };
}

/** Passes deltas on as they come, or keeps them until the answer is known to be whole. */
function createAnswerWriter(streaming: boolean) {
  const kept: RunEvent[] = [];
  let written = 0;
  return {
    codePoints: () => written,
    async *relay({ tool, input }: TurnOption, state: RunState): AsyncGenerator<RunEvent, ToolOutcome> {
      const execution = tool.execute(input);
      try {
        for (;;) {
          const step = await execution.next();
          if (step.done) return step.value;
          written += lengthOf(step.value);
          const event: RunEvent = { type: 'answer-delta', delta: step.value };
          if (!streaming) kept.push(event);
          else {
            state.textSent ||= step.value.type !== 'reasoning';
            yield event;
          }
        }
      } finally {
        await execution.return(abandoned);
      }
    },
    *flush(): Generator<RunEvent> {
      yield* kept;
    },
  };
}

/** Only to end a generator that nobody reads any more. */
const abandoned: ToolOutcome = { observation: { kind: 'failed', reason: 'abandoned', retryable: false }, usage: [] };

const lengthOf = (delta: ChatDelta): number =>
  delta.type === 'tool_call' ? delta.argumentsDelta.length + (delta.name?.length ?? 0) : delta.text.length;

/** A failed call that wrote something was billed something, whether or not the upstream said so. */
function consumed({ usage }: ToolOutcome, bound: readonly MeteredUsage[], written: number): readonly MeteredUsage[] {
  return usage.length === 0 && written > 0 ? abandonedUsage(bound, written) : usage;
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

function conclude(option: TurnOption, outcome: ToolOutcome, state: RunState, written: number): void {
  const { observation, usage } = outcome;
  if (observation.kind === 'failed') fail(option, observation, state);
  else if (observation.kind === 'answer') {
    const finishReason = outcome.finishReason ?? 'stop';
    state.answer = { slot: option.slot, finishReason, usage: clientUsage(usage, state, written) };
    if (finishReason === 'length' && option.input.maxOutputTokens < option.wantedOutputTokens) {
      state.forcedBy ??= 'max_cost_usd';
      state.warn('answer_capped', 'The answer was cut where the money for it ended.');
    }
  } else state.observe(observation, option.slot);
}

function fail({ slot }: TurnOption, failure: FailedObservation, state: RunState): void {
  state.giveUp(slot, failure);
  if (!state.textSent) return;
  state.error = { code: 'upstream_failed', message: `The answer broke off (${slot.id}: ${failure.reason}).` };
}

/** The client's own conversation and the visible answer; hidden calls are in the cost report instead. */
function clientUsage(usage: readonly MeteredUsage[], state: RunState, written: number): ClientUsage {
  const reported = usage[0]?.usage;
  const { evidence, spec } = state;
  const untouched = evidence.documents.length + evidence.codeRuns.length + evidence.attempts.length === 0;
  const ownTokens = Math.max(1, spec.needs.contextTokens);
  const prompt =
    reported && untouched ? reported.inputTokens + reported.cacheReadTokens + reported.cacheWriteTokens : ownTokens;
  return {
    promptTokens: prompt,
    completionTokens: reported ? reported.outputTokens + reported.reasoningTokens : Math.ceil(written / 4),
    reasoningTokens: reported?.reasoningTokens ?? 0,
    cachedTokens: untouched ? (reported?.cacheReadTokens ?? 0) : 0,
  };
}

function describe(observation: Observation): string {
  if (observation.kind === 'failed') return `failed: ${observation.reason}`;
  if (observation.kind === 'documents') return `documents: ${observation.documents.length}`;
  if (observation.kind === 'code_run') return 'code ran';
  return observation.kind === 'answer' ? 'answered' : 'attempted';
}

function recordOf(plan: TurnPlan, { outcome, cost }: Deed, latencyMs: number): TurnRecord {
  const { candidate, probability, records } = plan.choice;
  return {
    turn: plan.turn,
    role: candidate.role,
    slot: candidate.slot.id,
    model: candidate.slot.model,
    probability,
    candidates: records,
    decidedBy: plan.decidedBy,
    expectedCost: candidate.expectedCost,
    expectedLatencyMs: candidate.slot.latencyMs,
    cost,
    latencyMs: Math.round(latencyMs),
    outcome,
    ruledOut: plan.ruledOut,
  };
}
