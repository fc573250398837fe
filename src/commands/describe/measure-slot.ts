import { performance } from 'node:perf_hooks';
import { noEvidence, type Observation } from '../../contract/evidence.ts';
import { type Budget, isRefusal } from '../../cost/ledger.ts';
import { zeroUsd } from '../../cost/money.ts';
import { outputTokensOf } from '../../cost/usage.ts';
import { abandonedUsage } from '../../router/affordable.ts';
import type { Tool, ToolInput, ToolOutcome } from '../../tools/tool.ts';
import { type CallTime, createCallTime } from '../../upstream/call-time.ts';
import { isRight, promptOf, type SkillTask } from './skill-tasks.ts';

/** One question put to one slot. */
export interface Trial {
  readonly task: SkillTask;
  readonly text: string;
  readonly right: boolean;
  readonly latencyMs: number;
  readonly outputTokens: number;
}

export interface SlotTrials {
  /** Calls that came back; what failed says nothing about skill. */
  readonly trials: readonly Trial[];
  readonly failures: number;
  readonly end: 'complete' | 'money' | 'failures' | 'stopped';
}

/** More than short answers need, less than a model that goes round in circles would write. */
const mostOutputTokens = 2_048;
/** A slot that fails so often in a row is not there. */
const mostFailuresInARow = 3;

/**
 * Puts the tasks to a slot one after the other, each held in the budget before it is sent. What was paid for is kept,
 * however it ends.
 */
export async function measureSlot(
  tool: Tool,
  tasks: readonly SkillTask[],
  budget: Budget,
  signal: AbortSignal,
  onTask: () => void,
): Promise<SlotTrials> {
  const trials: Trial[] = [];
  let [failures, inARow] = [0, 0];
  for (const task of tasks) {
    const trial = await tryTask(tool, task, budget, signal);
    if (trial === 'money' || trial === 'stopped') return { trials, failures, end: trial };
    onTask();
    if (trial === 'failed') failures += 1;
    else trials.push(trial);
    inARow = trial === 'failed' ? inARow + 1 : 0;
    if (inARow === mostFailuresInARow) return { trials, failures, end: 'failures' };
  }
  return { trials, failures, end: 'complete' };
}

async function tryTask(
  tool: Tool,
  task: SkillTask,
  budget: Budget,
  signal: AbortSignal,
): Promise<Trial | 'money' | 'failed' | 'stopped'> {
  const startedAtMs = performance.now();
  try {
    const outcome = await callWithin(budget, tool, promptOf(task), signal);
    if (outcome === 'unaffordable') return 'money';
    const text = textIn(outcome.observation);
    if (text === undefined) return 'failed';
    const latencyMs = performance.now() - startedAtMs;
    const outputTokens = outcome.usage[0] ? outputTokensOf(outcome.usage[0].usage) : 0;
    return { task, text, right: isRight(task, text), latencyMs, outputTokens };
  } catch (error) {
    if (signal.aborted) return 'stopped';
    throw error;
  }
}

/**
 * One call to one slot: held before, booked after, whatever comes of it.
 * @throws AbortError when the signal fires.
 */
export async function callWithin(
  budget: Budget,
  tool: Tool,
  prompt: string,
  signal: AbortSignal,
): Promise<ToolOutcome | 'unaffordable'> {
  // Only the signal ends a call here, so slots that are billed by the second are not measured.
  const callTime = createCallTime(Number.MAX_SAFE_INTEGER);
  const input = inputOf(prompt, tool, callTime, signal);
  const bound = tool.bound(input);
  const hold = budget.hold(bound, zeroUsd);
  if (isRefusal(hold)) return 'unaffordable';
  let outcome: ToolOutcome | undefined;
  let written = 0;
  try {
    const call = tool.execute(input);
    let step = await call.next();
    for (; !step.done; step = await call.next()) written += 'text' in step.value ? step.value.text.length : 0;
    outcome = step.value;
    return outcome;
  } finally {
    const usage = outcome?.usage ?? abandonedUsage(bound, written, callTime.ms());
    if (usage.length === 0) budget.release(hold);
    else budget.settle(hold, usage);
  }
}

const inputOf = (prompt: string, { slot }: Tool, callTime: CallTime, signal: AbortSignal): ToolInput => ({
  problem: prompt,
  messages: [{ role: 'user', content: prompt }],
  evidence: noEvidence,
  // These questions are everybody's.
  privacy: 'any',
  admitsSource: () => true,
  privateTo: undefined,
  maxOutputTokens: Math.min(slot.maxOutputTokens, mostOutputTokens),
  answerOptions: {},
  callTime,
  signal,
});

function textIn(observation: Observation): string | undefined {
  if (observation.kind === 'answer') return observation.text;
  return observation.kind === 'code_run' ? observation.run.output : undefined;
}
