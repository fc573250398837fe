import type { Budget } from '../cost/ledger.ts';
import { type NanoUsd, zeroUsd } from '../cost/money.ts';
import type { PriceBook } from '../cost/price-book.ts';
import type { Slot } from '../preferences/slot.ts';
import type { Tool, ToolInput } from '../tools/tool.ts';
import { affordableOutputTokens, boundPrice, expectedPrice, least, leastAnswerTokens } from './affordable.ts';
import type { Candidate } from './policy.ts';
import type { RunSpec } from './run.ts';

/** One choice of a turn with everything needed to act on it. */
export interface TurnOption extends Candidate {
  readonly tool: Tool;
  readonly input: ToolInput;
  /** What would have been asked for, had money been no object. */
  readonly wantedOutputTokens: number;
  /** Must stay free beside this call, so that an answer can still follow; 0 for answers. */
  readonly keepBack: NanoUsd;
}

export type ForcingLimit = 'max_turns' | 'max_cost_usd' | 'max_latency_ms';

export interface TurnOptions {
  readonly options: readonly TurnOption[];
  readonly ruledOut: readonly { readonly slot: string; readonly reason: string }[];
  /** The limit that left nothing but an answer, where there was more to choose before it. */
  readonly forcedBy: ForcingLimit | undefined;
  /** What the cheapest answer needs at least; undefined when no answer slot is admissible at all. */
  readonly cheapestAnswer: NanoUsd | undefined;
}

export interface TurnSituation {
  readonly spec: RunSpec;
  /** Slots that the hard limits admit, in configured order. */
  readonly admissible: readonly Slot[];
  /** Slots that this run gave up, with the reason. */
  readonly excluded: ReadonlyMap<string, string>;
  readonly inputFor: (slot: Slot, maxOutputTokens: number) => ToolInput;
  readonly documents: number;
  readonly codeRuns: number;
  readonly turnsLeft: number;
  readonly timeLeftMs: number;
}

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
    const reason = situation.excluded.get(slot.id) ?? withdrawal(slot, situation);
    if (reason !== undefined) ruledOut.push({ slot: slot.id, reason });
    return reason === undefined;
  });
  const available = budget.remaining();
  const answers = open.filter(({ role }) => role === 'answer');
  const cheapestAnswer = least(
    answers.flatMap((slot) => {
      const tool = tools.get(slot.id);
      const tokens = Math.min(leastAnswerTokens, answerTokens(slot, situation.spec));
      return tool ? [boundPrice(tool, situation.inputFor(slot, tokens), prices)] : [];
    }),
  );
  const keepBack = cheapestAnswer ?? zeroUsd;
  const priced = open.flatMap((slot) => {
    const option = priceOption(slot, situation, tools, keepBack, available, prices);
    if (typeof option === 'object') return [option];
    ruledOut.push({ slot: slot.id, reason: option });
    return [];
  });
  const { options, forcedBy } = applyClock(priced, open, situation, ruledOut);
  return { options, ruledOut, forcedBy, cheapestAnswer };
}

/** Tools that have done their part leave the choice, so that a run cannot turn in circles. */
function withdrawal(slot: Slot, { documents, codeRuns }: TurnSituation): string | undefined {
  if (slot.role === 'search' && documents > 0) return 'documents are there already';
  if (slot.role === 'enhance_reasoning' && codeRuns >= mostCodeRuns) return `code ran ${codeRuns} times already`;
  return undefined;
}

const answerTokens = (slot: Slot, { maxAnswerTokens }: RunSpec): number =>
  Math.min(maxAnswerTokens ?? slot.maxOutputTokens, slot.maxOutputTokens);

function priceOption(
  slot: Slot,
  situation: TurnSituation,
  tools: ReadonlyMap<string, Tool>,
  keepBack: NanoUsd,
  available: NanoUsd | undefined,
  prices: PriceBook,
): TurnOption | string {
  const tool = tools.get(slot.id);
  if (!tool) return 'not available';
  const isAnswer = slot.role === 'answer';
  const wanted = isAnswer ? answerTokens(slot, situation.spec) : Math.min(prepareOutputTokens, slot.maxOutputTokens);
  const input = situation.inputFor(slot, wanted);
  const option = {
    role: slot.role,
    slot,
    tool,
    wantedOutputTokens: wanted,
    expectedCost: expectedPrice(tool, input, prices),
  };
  if (!isAnswer) {
    const tooDear = available !== undefined && boundPrice(tool, input, prices) + keepBack > available;
    return tooDear ? 'not affordable beside the answer that must follow' : { ...option, input, keepBack };
  }
  const tokens = affordableOutputTokens(tool, input, wanted, available, prices);
  if (tokens === undefined) return 'not affordable';
  return { ...option, input: situation.inputFor(slot, tokens), keepBack: zeroUsd };
}

function applyClock(
  priced: readonly TurnOption[],
  open: readonly Slot[],
  { turnsLeft, timeLeftMs }: TurnSituation,
  ruledOut: { slot: string; reason: string }[],
): Pick<TurnOptions, 'options' | 'forcedBy'> {
  const answers = priced.filter(({ role }) => role === 'answer');
  const prepares = priced.filter(({ role }) => role !== 'answer');
  const quickest = Math.min(...answers.map(({ slot }) => slot.latencyMs));
  const inTime = prepares.filter(({ slot }) => slot.latencyMs + quickest < timeLeftMs);
  const punctual = answers.filter(({ slot }) => slot.latencyMs < timeLeftMs);
  // Late is better than never: when no answer is expected in time, all of them stay.
  const keptAnswers = punctual.length > 0 ? punctual : answers;
  const keptPrepares = turnsLeft > 1 ? inTime : [];
  const drop = (options: readonly TurnOption[], kept: readonly TurnOption[], reason: string) => {
    for (const { slot } of options)
      if (!kept.some((other) => other.slot === slot)) ruledOut.push({ slot: slot.id, reason });
  };
  drop(answers, keptAnswers, 'too slow for the time left');
  drop(prepares, inTime, 'too slow for the time left');
  drop(inTime, keptPrepares, 'this turn must answer');
  const hadPrepares = open.some(({ role }) => role !== 'answer');
  const forcedBy = hadPrepares && keptPrepares.length === 0 ? forcing(prepares, inTime) : undefined;
  return { options: [...keptPrepares, ...keptAnswers], forcedBy };
}

function forcing(affordable: readonly TurnOption[], inTime: readonly TurnOption[]): ForcingLimit {
  if (affordable.length === 0) return 'max_cost_usd';
  return inTime.length === 0 ? 'max_latency_ms' : 'max_turns';
}
