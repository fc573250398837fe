import type { TiltScales } from '../preferences/tilt.ts';
import type { Weights } from '../preferences/weights.ts';
import { type Agreement, type Chances, type ProblemPrior, weighAgreement } from './agreement.ts';

interface OptionPrice {
  /** A slot's id, or `attempt-N` for delivering that attempt. */
  readonly id: string;
  readonly costUsd: number;
  readonly latencyMs: number;
  /** 0 (weakest class) to 1 (strongest). */
  readonly privacy: number;
  /** Sum of the caller's extra liking for selectors that match it. */
  readonly selectorWeight: number;
}

/** One admissible choice as the search sees it: money, time and chances only, no texts. */
export type UtilityOption = OptionPrice &
  (
    | { readonly kind: 'answer' | 'attempt'; readonly chances: Chances }
    /** A search or a calculation; multiplies the chances of the answers after it. */
    | { readonly kind: 'prepare'; readonly gain: number }
    | { readonly kind: 'deliver' }
  );

export interface MadeAttempt {
  readonly id: string;
  readonly slot: string;
  readonly chances: Chances;
  /** Id of the earliest attempt with an equal answer. */
  readonly agreesWith: string | undefined;
  /** False where its final answer cannot be told, so that agreement says nothing. */
  readonly comparable: boolean;
}

export interface SearchState {
  readonly prior: ProblemPrior;
  readonly attempts: readonly MadeAttempt[];
  /** Chance that further attempts can be compared. */
  readonly comparable: number;
  /** This turn included. */
  readonly turnsLeft: number;
  readonly attemptsLeft: number;
}

export interface UtilityOfOption {
  /** Expected, of the best path that begins with this option. */
  readonly utility: number;
  readonly pRight: number;
}

/** A certain right answer is worth as much as this many natural-log units of price at full cost weight. */
const qualityScale = 8;
/** A preparation is one more thing that can go wrong: at equal utility the shorter path wins, at any weights. */
const dislikeOfPreparing = 0.05;
const dislikeOfAttempt = 0.005;

/** What was paid and waited for on the way to a point of the search. */
interface Path {
  readonly costUsd: number;
  readonly latencyMs: number;
  readonly privacy: number;
  readonly selectorWeight: number;
  readonly dislike: number;
}

interface Group {
  /** Of the earliest attempt; undefined for one that the search only imagines. */
  readonly id: string | undefined;
  readonly members: readonly Chances[];
}

interface Node {
  readonly groups: readonly Group[];
  /** Attempts that cannot be compared. */
  readonly loose: readonly Group[];
  /** Slots that wrote an attempt, with the id of its group; empty for one that is only imagined. */
  readonly tried: ReadonlyMap<string, string>;
  readonly path: Path;
  readonly turnsLeft: number;
  readonly attemptsLeft: number;
}

type Writing = Extract<UtilityOption, { kind: 'answer' | 'attempt' }>;

interface Search {
  readonly prior: ProblemPrior;
  readonly comparable: number;
  readonly answers: readonly Writing[];
  readonly attempts: readonly Writing[];
  readonly utilityOf: (pRight: number, path: Path) => UtilityOfOption;
  /** Of a certain right answer. */
  readonly worth: number;
}

const isWriting = (option: UtilityOption): option is Writing => 'chances' in option;

const nowhere: UtilityOfOption = { utility: Number.NEGATIVE_INFINITY, pRight: 0 };
const start: Path = { costUsd: 0, latencyMs: 0, privacy: 1, selectorWeight: 0, dislike: 0 };

/**
 * Expected-utility search of depth two (architecture decision 13): answers and deliveries stand for themselves, a
 * preparation for the best answer after it, an attempt for what it and one more attempt may show by agreeing or not.
 * Prices and waits add up along the path, whatever came of them.
 * @returns one entry an option, in order; what nothing can follow gets utility −∞.
 */
export function expectedUtility(
  options: readonly UtilityOption[],
  state: SearchState,
  weights: Weights,
  scales: TiltScales,
): UtilityOfOption[] {
  const search: Search = {
    prior: state.prior,
    comparable: state.attempts.every(({ comparable }) => comparable) ? state.comparable : 0,
    answers: options.filter(isWriting).filter(({ kind }) => kind === 'answer'),
    attempts: options.filter(isWriting).filter(({ kind }) => kind === 'attempt'),
    utilityOf: (pRight, path) => ({ pRight, utility: utilityOf(pRight, path, weights, scales) }),
    worth: qualityScale * weights.quality,
  };
  const root = rootOf(state);
  const agreement = weigh(root, search);
  return options.map((option) => utilityOfOption(option, root, agreement, search));
}

function utilityOfOption(option: UtilityOption, root: Node, agreement: Agreement, search: Search): UtilityOfOption {
  const path = along(root.path, option);
  if (option.kind === 'deliver') return search.utilityOf(chanceOfDelivery(option.id, root, agreement), path);
  const made = root.tried.get(option.id);
  if (option.kind === 'answer') {
    // Whoever wrote an attempt would write it again: a second answer of theirs is no second opinion.
    const chance =
      made === undefined ? expected(option.chances, agreement.levels) : chanceOfDelivery(made, root, agreement);
    return search.utilityOf(chance, path);
  }
  if (root.turnsLeft < 2) return nowhere;
  if (option.kind === 'prepare') return afterPreparing(option.gain, path, agreement, search);
  // What can be compared with nothing teaches nothing: answering is the same for one turn less.
  return made !== undefined || search.comparable === 0 ? nowhere : afterAttempt(root, option, search, 1);
}

function utilityOf(pRight: number, path: Path, weights: Weights, scales: TiltScales): number {
  const money = -weights.cost * Math.log1p(path.costUsd / scales.costUsd);
  const time = -weights.latency * Math.log1p(path.latencyMs / scales.latencyMs);
  const softLimits = scales.lambda * (money + time + weights.privacy * path.privacy);
  return qualityScale * weights.quality * pRight + softLimits + path.selectorWeight - path.dislike;
}

const dislikes = { answer: 0, deliver: 0, attempt: dislikeOfAttempt, prepare: dislikeOfPreparing } as const;

function along(path: Path, option: UtilityOption): Path {
  return {
    costUsd: path.costUsd + option.costUsd,
    latencyMs: path.latencyMs + option.latencyMs,
    privacy: Math.min(path.privacy, option.privacy),
    selectorWeight: path.selectorWeight + option.selectorWeight,
    dislike: path.dislike + dislikes[option.kind],
  };
}

function rootOf({ attempts, turnsLeft, attemptsLeft }: SearchState): Node {
  const groupOf = (first: MadeAttempt): Group => ({
    id: first.id,
    members: [first, ...attempts.filter(({ agreesWith }) => agreesWith === first.id)].map(({ chances }) => chances),
  });
  const firsts = attempts.filter(({ agreesWith }) => agreesWith === undefined);
  return {
    groups: firsts.filter(({ comparable }) => comparable).map(groupOf),
    loose: firsts.filter(({ comparable }) => !comparable).map(groupOf),
    tried: new Map(attempts.map(({ id, slot, agreesWith }) => [slot, agreesWith ?? id])),
    path: start,
    turnsLeft,
    attemptsLeft,
  };
}

const weigh = ({ groups }: Node, { prior }: Search): Agreement =>
  weighAgreement(
    groups.map(({ members }) => members),
    prior,
  );

function expected(chances: Chances, levels: readonly number[]): number {
  let sum = 0;
  for (let level = 0; level < levels.length; level += 1) sum += (levels[level] ?? 0) * (chances[level] ?? 0);
  return sum;
}

function chanceOfDelivery(id: string, { groups, loose }: Node, { right, levels }: Agreement): number {
  const group = groups.findIndex((other) => other.id === id);
  if (group >= 0) return right[group] ?? 0;
  const [chances = []] = loose.find((other) => other.id === id)?.members ?? [];
  return expected(chances, levels);
}

function afterPreparing(gain: number, path: Path, { levels }: Agreement, { answers, utilityOf }: Search) {
  return answers
    .map((answer) => utilityOf(Math.min(1, gain * expected(answer.chances, levels)), along(path, answer)))
    .reduce(better, nowhere);
}

/** The attempt agrees with a group, differs from all, or cannot be compared; each branch goes on as is best for it. */
function afterAttempt(node: Node, option: Writing, search: Search, attemptsAhead: number): UtilityOfOption {
  const next: Omit<Node, 'groups' | 'loose'> = {
    tried: new Map(node.tried).set(option.id, ''),
    path: along(node.path, option),
    turnsLeft: node.turnsLeft - 1,
    attemptsLeft: node.attemptsLeft - 1,
  };
  const fresh: Group = { id: undefined, members: [option.chances] };
  const joined = node.groups.map(
    (_, at): Node => ({
      ...next,
      loose: node.loose,
      groups: node.groups.map((group, index) =>
        index === at ? { ...group, members: [...group.members, option.chances] } : group,
      ),
    }),
  );
  const told: Node[] = [...joined, { ...next, loose: node.loose, groups: [...node.groups, fresh] }];
  const likelihoods = told.map((child) => weigh(child, search).likelihood);
  const total = likelihoods.reduce((sum, value) => sum + value, 0);
  const unsure: Node = { ...next, groups: node.groups, loose: [...node.loose, fresh] };
  const branches = [
    ...told.map((child, index) => ({ chance: (search.comparable * (likelihoods[index] ?? 0)) / total, child })),
    { chance: 1 - search.comparable, child: unsure },
  ];
  return branches
    .filter(({ chance }) => chance > 0)
    .map(({ chance, child }) => ({
      chance,
      // Where answers cannot be compared, further attempts would teach nothing either.
      best: bestFrom(child, search, child === unsure ? 0 : attemptsAhead),
    }))
    .reduce(
      (sum, { chance, best }) => ({
        utility: sum.utility + chance * best.utility,
        pRight: sum.pRight + chance * best.pRight,
      }),
      { utility: 0, pRight: 0 },
    );
}

function bestFrom(node: Node, search: Search, attemptsAhead: number): UtilityOfOption {
  const stopped = bestEnd(node, search);
  if (attemptsAhead === 0 || node.turnsLeft < 2 || node.attemptsLeft < 1) return stopped;
  return search.attempts
    .filter(({ id }) => !node.tried.has(id))
    .map((option) => afterAttempt(node, option, search, attemptsAhead - 1))
    .reduce(better, stopped);
}

/** Deliver the best attempt, or have somebody else answer for good. */
function bestEnd(node: Node, search: Search): UtilityOfOption {
  const { right, levels } = weigh(node, search);
  const loose = node.loose.map(({ members: [chances = []] }) => expected(chances, levels));
  let best = search.utilityOf(Math.max(0, ...right, ...loose), node.path);
  // The innermost loop of the search, thousands of rounds with a large roster. One more call can only cost, so whoever
  // could not win for nothing is not priced.
  const spent = best.utility - search.worth * best.pRight;
  for (const answer of search.answers) {
    const pRight = expected(answer.chances, levels);
    const most = spent + search.worth * pRight + answer.selectorWeight;
    if (most <= best.utility || node.tried.has(answer.id)) continue;
    const end = search.utilityOf(pRight, along(node.path, answer));
    if (end.utility > best.utility) best = end;
  }
  return best;
}

const better = (left: UtilityOfOption, right: UtilityOfOption): UtilityOfOption =>
  right.utility > left.utility ? right : left;

/** Softmax over utilities: the policy's probabilities, and where training's gradient enters. */
export function choiceProbabilities(utilities: readonly number[], temperature: number): number[] {
  const top = Math.max(...utilities);
  const raised = utilities.map((utility) => Math.exp((utility - top) / temperature));
  const total = raised.reduce((sum, value) => sum + value, 0);
  return raised.map((value) => value / total);
}
