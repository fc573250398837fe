import { deliverableAttempts } from '../contract/apply.ts';
import type { Attempt, Evidence } from '../contract/evidence.ts';
import type { Budget } from '../cost/ledger.ts';
import { type NanoUsd, nanoUsd, zeroUsd } from '../cost/money.ts';
import type { PriceBook } from '../cost/price-book.ts';
import type { Slot } from '../preferences/slot.ts';
import type { Tool, ToolInput } from '../tools/tool.ts';
import { affordableOutputTokens, boundPrice, expectedPrice, least, leastAnswerTokens } from './affordable.ts';
import { type ForcingLimit, inTime } from './in-time.ts';
import type { Candidate, DecisionRole } from './policy.ts';
import type { RunSpec, TurnRecord } from './run.ts';

/** One choice of a turn with everything needed to act on it. */
export interface TurnOption extends Candidate {
  readonly tool: Tool;
  readonly input: ToolInput;
  /** What would have been asked for, had money been no object. */
  readonly wantedOutputTokens: number;
  /** Must stay free beside this call, so that an answer can still follow; 0 for answers. */
  readonly keepBack: NanoUsd;
}

export interface TurnOptions {
  readonly options: readonly TurnOption[];
  readonly ruledOut: TurnRecord['ruledOut'];
  /** The limit that left nothing but an answer, where there was more to choose before it. */
  readonly forcedBy: ForcingLimit | undefined;
  /** What the cheapest answer needs at least; undefined when no answer slot is left. */
  readonly cheapestAnswer: NanoUsd | undefined;
}

export interface TurnSituation {
  readonly spec: RunSpec;
  /** Slots that the hard limits admit, in configured order. */
  readonly admissible: readonly Slot[];
  /** Slots that this run gave up, with the reason. */
  readonly excluded: ReadonlyMap<string, string>;
  readonly evidence: Evidence;
  /** Whether the policy's contract knows attempts and their delivery. */
  readonly attempts: boolean;
  readonly inputFor: (slot: Slot, maxOutputTokens: number) => ToolInput;
  readonly turnsLeft: number;
  readonly timeLeftMs: number;
}

/** What money is looked at with. */
interface Means {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly prices: PriceBook;
  readonly available: NanoUsd | undefined;
  /** Price of the shortest worthwhile answer at the cheapest slot; 0 once an attempt can be delivered for nothing. */
  readonly keepBack: NanoUsd;
}

/** Contract `slots-2`. */
const mostAttempts = 4;
/** Experts that prepare write little: a query, a short program. */
const prepareOutputTokens = 2048;
/** The same problem and evidence would only be calculated the same way again. */
const mostCodeRuns = 2;

/** What may be chosen this turn: admissible, not given up, affordable with an answer still to come, and in time. */
export function optionsOf(
  situation: TurnSituation,
  tools: ReadonlyMap<string, Tool>,
  budget: Budget,
  prices: PriceBook,
): TurnOptions {
  const ruledOut: { slot: string; reason: string }[] = [];
  const open = situation.admissible.filter((slot) => {
    const reason = situation.excluded.get(slot.id) ?? withdrawal(slot, situation.evidence);
    if (reason !== undefined) ruledOut.push({ slot: slot.id, reason });
    return reason === undefined;
  });
  const cheapestAnswer = cheapest(open, situation, tools, prices);
  const deliveries = situation.attempts ? deliveriesOf(situation, tools) : [];
  const keepBack = deliveries.length > 0 ? zeroUsd : (cheapestAnswer ?? zeroUsd);
  const means = { tools, prices, available: budget.remaining(), keepBack };
  const wishes = open.flatMap((slot) => rolesOf(slot, situation).map((role) => ({ role, slot })));
  const affordable = wishes.flatMap(({ role, slot }) => {
    const option = role === 'answer' ? answerOption(slot, situation, means) : stepOption(role, slot, situation, means);
    if (typeof option === 'object') return [option];
    ruledOut.push({ slot: slot.id, reason: option });
    return [];
  });
  const timed = inTime([...affordable, ...deliveries], situation, (slot, reason) => ruledOut.push({ slot, reason }));
  const steps = wishes.filter(({ role }) => role !== 'answer').length;
  return { options: timed.options, ruledOut, forcedBy: steps > 0 ? timed.forcedBy : undefined, cheapestAnswer };
}

/** Tools that have done their part leave the choice, so that a run cannot turn in circles. */
function withdrawal(slot: Slot, { documents, codeRuns }: Evidence): string | undefined {
  if (slot.role === 'search' && documents.length > 0) return 'documents are there already';
  if (slot.role === 'enhance_reasoning' && codeRuns.length >= mostCodeRuns) return 'code ran often enough';
  return undefined;
}

function rolesOf(slot: Slot, { attempts, spec, evidence }: TurnSituation): readonly DecisionRole[] {
  if (slot.role !== 'answer') return [slot.role];
  // A call of a client's tool is no answer that could be kept and compared.
  const mayAttempt = attempts && !spec.needs.clientTools && evidence.attempts.length < mostAttempts;
  return mayAttempt ? ['attempt', 'answer'] : ['answer'];
}

const answerTokens = (slot: Slot, { maxAnswerTokens }: RunSpec): number =>
  Math.min(maxAnswerTokens ?? slot.maxOutputTokens, slot.maxOutputTokens);

function cheapest(
  open: readonly Slot[],
  situation: TurnSituation,
  tools: ReadonlyMap<string, Tool>,
  prices: PriceBook,
): NanoUsd | undefined {
  const answers = open.filter(({ role }) => role === 'answer');
  return least(
    answers.flatMap((slot) => {
      const tool = tools.get(slot.id);
      const tokens = Math.min(leastAnswerTokens, answerTokens(slot, situation.spec));
      return tool ? [boundPrice(tool, situation.inputFor(slot, tokens), prices)] : [];
    }),
  );
}

function answerOption(slot: Slot, situation: TurnSituation, means: Means): TurnOption | string {
  return writtenBy(slot, 'answer', situation, means, zeroUsd) ?? 'not affordable';
}

/** A search, a calculation or an attempt: an answer must still be possible after it. */
function stepOption(role: DecisionRole, slot: Slot, situation: TurnSituation, means: Means): TurnOption | string {
  const { tools, prices, available, keepBack } = means;
  const tooDear = `${role === 'attempt' ? 'an attempt is ' : ''}not affordable beside the answer that must follow`;
  if (role === 'attempt') return writtenBy(slot, role, situation, means, keepBack) ?? tooDear;
  const tool = tools.get(slot.id);
  if (!tool) return 'not available';
  const wanted = Math.min(prepareOutputTokens, slot.maxOutputTokens);
  const input = situation.inputFor(slot, wanted);
  if (available !== undefined && boundPrice(tool, input, prices) + keepBack > available) return tooDear;
  return { ...optionOf(slot, role, tool, input, wanted, prices), keepBack };
}

/** An answer or attempt, as long as the money allows beside what is kept back. */
function writtenBy(
  slot: Slot,
  role: DecisionRole,
  situation: TurnSituation,
  { tools, prices, available }: Means,
  keepBack: NanoUsd,
): TurnOption | undefined {
  const tool = tools.get(slot.id);
  if (!tool) return undefined;
  const wanted = answerTokens(slot, situation.spec);
  const free = available === undefined ? undefined : nanoUsd(Math.max(0, available - keepBack));
  const tokens = affordableOutputTokens(tool, situation.inputFor(slot, wanted), wanted, free, prices);
  if (tokens === undefined) return undefined;
  return { ...optionOf(slot, role, tool, situation.inputFor(slot, tokens), wanted, prices), keepBack };
}

function optionOf(slot: Slot, role: DecisionRole, tool: Tool, input: ToolInput, wanted: number, prices: PriceBook) {
  return {
    id: slot.id,
    role,
    slot,
    delivers: undefined,
    expectedCost: expectedPrice(tool, input, prices),
    expectedLatencyMs: slot.latencyMs,
    tool,
    input,
    wantedOutputTokens: wanted,
  };
}

function deliveriesOf(situation: TurnSituation, tools: ReadonlyMap<string, Tool>): TurnOption[] {
  return deliverableAttempts(situation.evidence).flatMap((attempt: Attempt): TurnOption[] => {
    const tool = tools.get(attempt.slot);
    if (!tool) return [];
    const free = { expectedCost: zeroUsd, expectedLatencyMs: 0, wantedOutputTokens: 0, keepBack: zeroUsd };
    const input = situation.inputFor(tool.slot, 0);
    return [{ id: attempt.id, role: 'answer', slot: tool.slot, delivers: attempt, tool, input, ...free }];
  });
}
