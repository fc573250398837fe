import type { Contract } from '../contract/schema.ts';
import type { Ledger } from '../cost/ledger.ts';
import { addUsd, type NanoUsd, zeroUsd } from '../cost/money.ts';
import type { PriceBook } from '../cost/price-book.ts';
import { OrchestraError } from '../errors.ts';
import type { Slot } from '../preferences/slot.ts';
import type { RunStore } from '../store/runs.ts';
import type { Tool } from '../tools/tool.ts';
import { createCallTime } from '../upstream/call-time.ts';
import { act } from './act.ts';
import { askPolicy, decisionPrice } from './ask-policy.ts';
import { choose } from './choose.ts';
import { type RunClock, startClock } from './clock.ts';
import {
  clientLeft,
  endingOf,
  limitReached,
  nobodyAdmissible,
  nobodyAffordable,
  nothingLeft,
  tooLong,
} from './endings.ts';
import { optionsOf, type TurnOptions } from './options.ts';
import type { Policy, PolicyInput } from './policy.ts';
import { policyInfo, recordOf, storedRun } from './record.ts';
import type { DecideReport, Orchestrator, RunError, RunEvent, RunRecord, RunSpec } from './run.ts';
import { RunState } from './run-state.ts';

/** Who decides: may be others later. */
export interface Deciders {
  readonly policy: Policy;
  /** Decides when the policy cannot; undefined where the operator forbids it. */
  readonly fallback: Policy | undefined;
}

/** Everything the loop works with; built once at start, but for who decides. */
interface RouterParts extends Deciders {
  /** In configured order, each with its tool. */
  readonly slots: readonly Slot[];
  readonly tools: ReadonlyMap<string, Tool>;
  readonly ledger: Ledger;
  readonly prices: PriceBook;
  readonly runs: Pick<RunStore, 'save'>;
  /** Scales of the tilt, budgets and hash. */
  readonly contract: Pick<Contract, 'tilt' | 'budgets' | 'hash'>;
  readonly maxTurns: number;
  readonly runTimeoutMs: number;
  readonly now: () => number;
  /** Told every error that ends a run, or that a fallback makes good, with its cause, for the log. */
  readonly onError: (error: OrchestraError, runId: string) => void;
}

/*
 * The loop. Each turn: mask what the limits forbid, price what is left, ask the policy, tilt by the caller's weights,
 * act, observe. A failing tool is an observation, and the turn is taken again without it. The last turn can only
 * answer. Whatever happens, the record is saved and every hold is settled or released.
 */
export function createOrchestrator(parts: Omit<RouterParts, keyof Deciders>, deciders: () => Deciders): Orchestrator {
  // A run ends with the policy that it began with, also where another takes over meanwhile.
  const now = () => ({ ...parts, ...deciders() });
  return { run: (spec) => run(spec, now()), decide: (spec) => decide(spec, now()) };
}

async function* run(spec: RunSpec, parts: RouterParts): AsyncGenerator<RunEvent, RunRecord> {
  const { state, clock, first } = openRun(spec, parts);
  let left = true;
  try {
    yield* takeTurns(state, clock, first, parts);
    left = false;
  } catch (error) {
    left = false;
    end(state, error, clock, parts);
  } finally {
    clock.stop();
    // Whoever reads the events stopped reading: the client is gone.
    if (left) state.error = runErrorOf(clientLeft());
    parts.runs.save(storedRun(spec.keyName, recordOf(state, parts)));
  }
  return recordOf(state, parts);
}

interface OpenedRun {
  readonly state: RunState;
  readonly clock: RunClock;
  /** What the first turn may choose. */
  readonly first: TurnOptions;
}

/** @throws OrchestraError when nothing admissible and affordable can answer; nothing has been spent then. */
function openRun(spec: RunSpec, parts: RouterParts): OpenedRun {
  const { runId, keyName } = spec;
  const { maxCost, maxCostPerDay } = spec.preferences.limits;
  const budget = parts.ledger.openBudget({ runId, keyName, maxCost, maxCostPerDay });
  const state = new RunState(spec, parts.slots, budget, parts.now());
  if (!state.admissible.some(({ role }) => role === 'answer')) {
    throw tooLong(spec, parts.slots) ?? nobodyAdmissible(state.limitsApplied);
  }
  const clock = clockOf(spec, parts);
  try {
    const first = turnOptions(state, mostTurns(spec, parts), clock, parts);
    if (first.options.length === 0) throw nobodyAffordable(spec, first, budget.remaining() ?? zeroUsd);
    return { state, clock, first };
  } catch (error) {
    clock.stop();
    throw error;
  }
}

const mostTurns = ({ preferences }: RunSpec, parts: RouterParts): number =>
  preferences.limits.maxTurns ?? parts.maxTurns;

function clockOf({ preferences, patienceMs, signal }: RunSpec, { runTimeoutMs }: RouterParts): RunClock {
  const { maxLatencyMs = runTimeoutMs } = preferences.limits;
  return startClock(Math.min(maxLatencyMs, patienceMs ?? runTimeoutMs, runTimeoutMs), signal);
}

async function* takeTurns(
  state: RunState,
  clock: RunClock,
  first: TurnOptions,
  parts: RouterParts,
): AsyncGenerator<RunEvent, void> {
  const maxTurns = mostTurns(state.spec, parts);
  let turn = 1;
  let known: TurnOptions | undefined = first;
  while (!state.answer && !state.error) {
    clock.signal.throwIfAborted();
    const found: TurnOptions = known ?? turnOptions(state, maxTurns - turn + 1, clock, parts);
    known = undefined;
    if (found.options.length === 0) {
      makeAffordable(state, found, clock);
      continue;
    }
    if (found.forcedBy) {
      state.forcedBy ??= found.forcedBy;
      if (state.spec.preferences.onLimit === 'error') throw limitReached(found.forcedBy, state, clock);
    }
    yield { type: 'turn-start', turn };
    const input = policyInput(state, found, turn, maxTurns, clock);
    // A decision must leave the price of an answer, so that the run can end with one.
    const asked = await askPolicy(input, state, parts, found.endPrice);
    state.learn(asked.opinion);
    const choice = choose(found.options, asked.opinion, state.weights, parts.contract.tilt);
    const { id, role, slot } = choice.candidate;
    const { probability, records: candidates } = choice;
    yield { type: 'decision-made', turn, role, slot: id, model: slot.model, probability, candidates };
    const plan = { turn, choice, decidedBy: asked.decidedBy, ruledOut: found.ruledOut };
    const succeeded = yield* act(plan, state);
    const record = state.turns.at(-1);
    if (record) yield { type: 'turn-end', record };
    if (succeeded) turn += 1;
  }
}

/** What was kept back was the price of an answer without what was found since: that can be read only as far as it goes. */
function makeAffordable(state: RunState, found: TurnOptions, clock: RunClock): void {
  const { cheapestAnswer, decisionCost } = found;
  const remaining = state.budget.remaining();
  const isTooDear =
    remaining !== undefined && cheapestAnswer !== undefined && addUsd(cheapestAnswer, decisionCost) > remaining;
  if (!isTooDear || !state.leaveOutLeast()) throw nothingLeft(state, found);
  state.forcedBy ??= 'max_cost_usd';
  if (state.spec.preferences.onLimit === 'error') throw limitReached('max_cost_usd', state, clock);
}

function turnOptions(
  state: RunState,
  turnsLeft: number,
  { leftMs, signal }: RunClock,
  parts: RouterParts,
): TurnOptions {
  const { spec, evidence, admissible } = state;
  const sources = new Map(admissible.map(({ id, tools }) => [id, tools]));
  const timeLeftMs = leftMs();
  const situation = {
    spec,
    // With client tools the expert alone acts: it must see the client's tools and nothing in their place.
    admissible: spec.needs.clientTools ? admissible.filter(({ role }) => role === 'answer') : admissible,
    excluded: state.excluded,
    evidence,
    budgets: parts.contract.budgets,
    // A call of a client's tool is no answer that could be kept and compared.
    attempts: knowsAttempts(parts.policy.contract) && !spec.needs.clientTools,
    turnsLeft,
    timeLeftMs,
    inputFor: (slot: Slot, maxOutputTokens: number) => ({
      problem: state.problem,
      messages: spec.messages,
      evidence,
      privacy: state.privacy,
      admitsSource: (name: string) => sources.get(slot.id)?.includes(name) ?? false,
      privateTo: state.privateTo,
      maxOutputTokens,
      answerOptions: slot.role === 'answer' ? spec.answerOptions : {},
      callTime: createCallTime(timeLeftMs),
      signal,
    }),
  };
  const decision = decisionPrice(parts.policy, timeLeftMs, parts.prices);
  const nextDecisionCost = parts.fallback ? zeroUsd : decision;
  const optionsBeside = (decisionCost: NanoUsd) =>
    optionsOf({ ...situation, decisionCost, nextDecisionCost }, parts.tools, state.budget, parts.prices);
  const found = optionsBeside(decision);
  // Where the money covers an answer or a decision but not both, the answer has it, and the fallback decides for nothing.
  return found.options.length > 0 || !parts.fallback ? found : optionsBeside(zeroUsd);
}

/** Contracts before `slots-2` know no attempts, and policies trained on them must not be shown any. */
const knowsAttempts = (contract: string): boolean => contract !== 'slots-1';

function policyInput(
  { problem, conversation, evidence, privateTo, weights, spec }: RunState,
  found: TurnOptions,
  turn: number,
  maxTurns: number,
  { leftMs, signal }: RunClock,
): PolicyInput {
  const { statedWeights, instruction } = spec.preferences;
  const { seed, keyName: askedBy } = spec;
  const turnsLeft = maxTurns - turn + 1;
  return {
    problem,
    conversation,
    evidence,
    candidates: found.options,
    weights,
    statedWeights,
    instruction,
    turn,
    turnsLeft,
    timeLeftMs: leftMs(),
    seed,
    askedBy,
    privateTo,
    signal,
  };
}

/** Text that was sent before the deadline stands as a cut answer; everything else is an error. */
function end(state: RunState, thrown: unknown, clock: RunClock, parts: RouterParts): void {
  const error = endingOf(thrown, state.spec.signal, clock);
  if (error.code === 'deadline_exceeded' && state.standAsCut()) {
    state.forcedBy = 'max_latency_ms';
    state.warn('deadline_reached', 'The answer was cut off by the deadline.');
    return;
  }
  parts.onError(error, state.spec.runId);
  state.error = runErrorOf(error);
}

function runErrorOf({ code, message, param, details, retryAfterMs, quote }: OrchestraError): RunError {
  return {
    code,
    message,
    ...(param === undefined ? {} : { param }),
    ...(details === undefined ? {} : { details }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(quote === undefined ? {} : { quote }),
  };
}

async function decide(spec: RunSpec, parts: RouterParts): Promise<DecideReport> {
  const { state, clock, first: found } = openRun(spec, parts);
  try {
    const maxTurns = mostTurns(spec, parts);
    const asked = await askPolicy(
      policyInput(state, found, 1, maxTurns, clock),
      state,
      { ...parts, policy: dryPolicy(state, parts) },
      found.endPrice,
    );
    state.learn(asked.opinion);
    const { candidate, records } = choose(found.options, asked.opinion, state.weights, parts.contract.tilt);
    return {
      policy: policyInfo(parts.policy, parts.contract),
      decidedBy: asked.decidedBy,
      role: candidate.role,
      slot: candidate.id,
      candidates: records,
      weights: state.weights,
      limitsApplied: state.limitsApplied,
      ruledOut: found.ruledOut,
      warnings: state.warnings,
    };
  } finally {
    clock.stop();
  }
}

/** A dry run sends nothing anywhere and spends nothing, so a policy that runs elsewhere is not asked. */
function dryPolicy(state: RunState, { policy, fallback }: RouterParts): Policy {
  if (!policy.place) return policy;
  const reason = `The policy ${policy.name} runs on a server and is not asked in a dry run`;
  if (!fallback) throw new OrchestraError('policy_unavailable', `${reason}, and no fallback is allowed.`);
  state.warn('policy_skipped', `${reason}; ${fallback.name} decided.`);
  return fallback;
}
