import { type OpenChoice, openChoices } from '../contract/choices.ts';
import type { Evidence } from '../contract/evidence.ts';
import type { Contract } from '../contract/schema.ts';
import type { Budget } from '../cost/ledger.ts';
import { addUsd, type NanoUsd, nanoUsd, zeroUsd } from '../cost/money.ts';
import type { PriceBook } from '../cost/price-book.ts';
import type { Slot } from '../preferences/slot.ts';
import type { Tool, ToolInput } from '../tools/tool.ts';
import { affordableOutputTokens, boundPrice, expectedPrice, least, leastAnswerTokens } from './affordable.ts';
import { type ForcingLimit, inTime } from './in-time.ts';
import type { RunSpec, TurnRecord } from './run.ts';
import type { TurnOption } from './turn-option.ts';

export interface TurnOptions {
  readonly options: readonly TurnOption[];
  readonly ruledOut: TurnRecord['ruledOut'];
  /** The limit that left nothing but an answer, where there was more to choose before it. */
  readonly forcedBy: ForcingLimit | undefined;
  /** What the cheapest answer needs at least; undefined when no answer slot is left. */
  readonly cheapestAnswer: NanoUsd | undefined;
  /** Price of ending the run: of the cheapest answer, or nothing once an attempt can be delivered. */
  readonly endPrice: NanoUsd;
  /** What was set aside for choosing among these; nothing where there is one choice, whatever the money. */
  readonly decisionCost: NanoUsd;
}

export interface TurnSituation {
  readonly spec: RunSpec;
  /** Slots that the hard limits admit, in configured order. */
  readonly admissible: readonly Slot[];
  /** Slots that this run gave up, with the reason. */
  readonly excluded: ReadonlyMap<string, string>;
  readonly evidence: Evidence;
  /** Whether the policy's contract knows attempts, and the request admits them. */
  readonly attempts: boolean;
  readonly budgets: Contract['budgets'];
  readonly inputFor: (slot: Slot, maxOutputTokens: number) => ToolInput;
  readonly turnsLeft: number;
  readonly timeLeftMs: number;
  /** What the decision itself may cost, before anything that is decided. */
  readonly decisionCost: NanoUsd;
  /** What a step must leave for the decision after it, beside the answer; nothing where a fallback decides for free. */
  readonly nextDecisionCost: NanoUsd;
}

/** What money is looked at with. */
interface Means {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly prices: PriceBook;
  readonly available: NanoUsd | undefined;
  /** What a step must leave, so that the run can go on and end. */
  readonly keepBack: NanoUsd;
}

/** Experts that prepare write little: a query, a short program. */
const prepareOutputTokens = 2048;

/** What may be chosen this turn: admissible, not given up, affordable with an answer still to come, and in time. */
export function optionsOf(
  situation: TurnSituation,
  tools: ReadonlyMap<string, Tool>,
  budget: Budget,
  prices: PriceBook,
): TurnOptions {
  const ruledOut: { slot: string; reason: string }[] = [];
  const standing = situation.admissible.filter(({ id }) => {
    const reason = situation.excluded.get(id);
    if (reason !== undefined) ruledOut.push({ slot: id, reason });
    return reason === undefined;
  });
  const { open, withdrawn } = openChoices(standing, situation.evidence, situation.budgets, situation.attempts);
  ruledOut.push(...withdrawn);
  const cheapestAnswer = cheapest(standing, situation, tools, prices);
  const endPrice = open.some(({ delivers }) => delivers) ? zeroUsd : (cheapestAnswer ?? zeroUsd);
  const decisionCost = open.length > 1 ? situation.decisionCost : zeroUsd;
  const remaining = budget.remaining();
  const available = remaining === undefined ? undefined : nanoUsd(Math.max(0, remaining - decisionCost));
  const means = { tools, prices, available, keepBack: addUsd(endPrice, situation.nextDecisionCost) };
  const affordable = open.flatMap((choice) => {
    const option = optionOf(choice, situation, means);
    if (typeof option === 'object') return [option];
    ruledOut.push({ slot: choice.id, reason: option });
    return [];
  });
  const timed = inTime(affordable, situation, (slot, reason) => ruledOut.push({ slot, reason }));
  const hadSteps = open.some(({ role }) => role !== 'answer');
  const forcedBy = hadSteps ? timed.forcedBy : undefined;
  return { options: timed.options, ruledOut, forcedBy, cheapestAnswer, endPrice, decisionCost };
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

/** The choice with its tool, input and price, or why it falls. */
function optionOf(choice: OpenChoice, situation: TurnSituation, means: Means): TurnOption | string {
  const tool = means.tools.get(choice.slot);
  if (!tool) return 'not available';
  // A search slot is what its remaining sources make of it.
  const slot = situation.admissible.find(({ id }) => id === choice.slot) ?? tool.slot;
  if (choice.delivers) return { ...choice, ...free, slot, tool, input: situation.inputFor(slot, 0) };
  const keepBack = choice.role === 'answer' ? zeroUsd : means.keepBack;
  const isWriting = choice.role === 'answer' || choice.role === 'attempt';
  const wanted = isWriting
    ? answerTokens(tool.slot, situation.spec)
    : Math.min(prepareOutputTokens, tool.slot.maxOutputTokens);
  const input = affordableInput(tool, wanted, isWriting, keepBack, situation, means);
  if (!input) return choice.role === 'answer' ? 'not affordable' : 'not affordable beside the answer that must follow';
  return {
    ...choice,
    slot,
    tool,
    input,
    wantedOutputTokens: wanted,
    keepBack,
    expectedCost: expectedPrice(tool, input, means.prices),
    expectedLatencyMs: tool.slot.latencyMs,
  };
}

/** A delivery was paid for when the attempt was made. */
const free = { expectedCost: zeroUsd, expectedLatencyMs: 0, wantedOutputTokens: 0, keepBack: zeroUsd };

/** Answers and attempts shrink to what the money covers; a query or a program is all or nothing. */
function affordableInput(
  tool: Tool,
  wanted: number,
  canShrink: boolean,
  keepBack: NanoUsd,
  { inputFor }: TurnSituation,
  { prices, available }: Means,
): ToolInput | undefined {
  const input = inputFor(tool.slot, wanted);
  if (available === undefined) return input;
  const money = nanoUsd(Math.max(0, available - keepBack));
  if (!canShrink) return boundPrice(tool, input, prices) <= money ? input : undefined;
  const tokens = affordableOutputTokens(wanted, money, (maxOutputTokens) =>
    boundPrice(tool, { ...input, maxOutputTokens }, prices),
  );
  return tokens === undefined ? undefined : inputFor(tool.slot, tokens);
}
