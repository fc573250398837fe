import type { Slot } from '../preferences/slot.ts';
import { type WeightAxis, weightAxes } from '../preferences/weights.ts';
import { countCodePoints, keepTail } from './code-points.ts';
import { promptBudgets } from './cut.ts';
import type { Evidence } from './evidence.ts';
import { evidenceText } from './evidence-text.ts';
import { fill } from './fill.ts';
import type { BeliefsContract, ContractRole } from './schema.ts';
import { mergeTexts, type Segment, trusted, untrusted } from './segment.ts';
import { endedSentence } from './slot-card.ts';

/**
 * `beliefs-1`: a prefix with problem and evidence, behind it one branch a card, answered by one of five grades. Prices,
 * ids and preferences are in none of them: choices are made from the grades by the expected-utility search.
 */

export interface JudgedProblem {
  readonly problem: string;
  /** Earlier turns of the client's chat, empty when there are none. */
  readonly conversation: string;
  readonly evidence: Evidence;
  /** Of the policy; budgets scale with it. */
  readonly contextTokens: number;
}

/** Nobody is sure of anything. */
const leastChance = 0.01;

/**
 * What all branches of a turn share. Attempts are left out: the search weighs their agreement by Bayes' rule, and a
 * model that had read them would count it twice.
 */
export function problemPrefix(input: JudgedProblem, contract: BeliefsContract): Segment[] {
  const { labels } = contract;
  const budgets = promptBudgets(input.contextTokens, contract);
  const conversation = keepTail(input.conversation, budgets.conversation);
  const problem = keepTail(input.problem, budgets.problem);
  const room = budgets.prompt - countCodePoints(conversation) - countCodePoints(problem);
  const known = evidenceText({ ...input.evidence, attempts: [] }, room, contract);
  const spoken = conversation === '' ? '' : `${labels.conversation}${conversation}\n\n`;
  return prefix(`${spoken}${labels.problem}${problem}${known === '' ? '' : `\n\n${known}`}`, contract);
}

/** The slot's words and measured skills in words, then the question of its role; `attempt` as for `answer`. */
export function cardBranch(
  { quality, skills }: Pick<Slot, 'quality' | 'skills'>,
  role: ContractRole,
  contract: BeliefsContract,
): Segment[] {
  const told = { quality: endedSentence(quality), skills: skillWords(skills, contract) };
  const sentence = fill(contract.sentence, told);
  return branch(fill(contract.card, { sentence }) + contract.questions[role === 'attempt' ? 'answer' : role], contract);
}

/** Words only: a number would print differently in the trainer. */
function skillWords(skills: Slot['skills'], { skills: told }: BeliefsContract): string {
  const known = Object.entries(skills).slice(0, told.domains);
  if (known.length === 0) return '';
  const phrases = known.map(([domain, chance]) => {
    const grade = told.edges.filter((edge) => chance >= edge).length;
    return fill(told.phrases[grade] ?? '', { domain });
  });
  return fill(told.sentence, { skills: phrases.join(told.separator) });
}

export const wishPrefix = (instruction: string, contract: BeliefsContract): Segment[] =>
  prefix(fill(contract.wish, { instruction: instruction.trim() }), contract);

/** One question an axis, in the order of `weightAxes`. */
export const wishBranches = (contract: BeliefsContract): Segment[][] =>
  weightAxes.map((axis) => branch(contract.wishes[axis], contract));

export const gradeSegments = ({ grades }: BeliefsContract): Segment[][] => grades.map((grade) => [untrusted(grade)]);

/** Mean of what the grades stand for. */
export const expectedOf = (probabilities: readonly number[], values: readonly number[]): number =>
  probabilities.reduce((sum, probability, index) => sum + probability * (values[index] ?? 0), 0);

/** What a wish was read to care about, in the order of `weightAxes`, as shares of one; of nothing: quality alone. */
export function wishWeights(raw: readonly number[]): Record<WeightAxis, number> {
  const total = raw.reduce((sum, weight) => sum + weight, 0);
  const share = (axis: WeightAxis): number =>
    total === 0 ? Number(axis === 'quality') : (raw[weightAxes.indexOf(axis)] ?? 0) / total;
  return { quality: share('quality'), cost: share('cost'), latency: share('latency'), privacy: share('privacy') };
}

/**
 * Chances at equally likely levels of difficulty, whose mean is about the given chance. Averaging over levels draws
 * chances towards one half; widening the log-odds first gives them back.
 */
export function spreadOverLevels(chance: number, levels: readonly number[]): number[] {
  const sure = leastChance + (1 - 2 * leastChance) * chance;
  const variance = levels.reduce((sum, level) => sum + level ** 2, 0) / levels.length;
  const odds = (sure / (1 - sure)) ** Math.sqrt(1 + (Math.PI / 8) * variance);
  return levels.map((level) => odds / (odds + Math.exp(-level)));
}

function prefix(text: string, { chat, system }: BeliefsContract): Segment[] {
  const ours = (words: string): Segment[] => trusted(words, chat.controlTags);
  return mergeTexts([...ours(chat.systemOpen + system), ...ours(chat.turnClose + chat.userOpen), untrusted(text)]);
}

function branch(text: string, { chat }: BeliefsContract): Segment[] {
  return mergeTexts([untrusted(text), ...trusted(chat.turnClose + chat.assistantOpen, chat.controlTags)]);
}
