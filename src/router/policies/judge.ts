import { performance } from 'node:perf_hooks';
import type { Chances } from '../../contract/agreement.ts';
import {
  cardBranch,
  expectedOf,
  problemPrefix,
  spreadOverLevels,
  wishBranches,
  wishPrefix,
  wishWeights,
} from '../../contract/beliefs.ts';
import type { BeliefsContract } from '../../contract/schema.ts';
import { addUsage, noUsage, type Usage, usageOf } from '../../cost/usage.ts';
import type { InferenceEngine } from '../../inference/engine.ts';
import type { Slot } from '../../preferences/slot.ts';
import { type Weights, weightAxes } from '../../preferences/weights.ts';
import type { Policy, PolicyInput } from '../policy.ts';
import { createGrader, type Grader, type Grades } from './grader.ts';
import { paced } from './pace.ts';
import { type ProblemReader, type ProblemReading, readByCues } from './problem-reading.ts';
import { domainsNamed, noSkillCounts, type SkillCounts, taughtChance } from './skills.ts';
import { inWindow } from './turn-prompt.ts';
import { type Beliefs, weighCandidates } from './weigh-candidates.ts';

export interface JudgePolicyOptions {
  readonly name: string;
  readonly engine: InferenceEngine;
  readonly contract: BeliefsContract;
  /** Tells how attempts to a problem compare, and its domains for feedback. Words alone where there is no embedding. */
  readonly readProblem?: ProblemReader | undefined;
  readonly skillCounts?: SkillCounts;
  /** Longest decision, in milliseconds; without it, it may take all the time that the run has. */
  readonly decisionMs?: number | undefined;
}

/** Of the time left to a run, where decisions are bounded: most of it belongs to the answer. */
const decisionShare = 1 / 4;

/**
 * A GGUF believes, arithmetic decides (`beliefs-1`): the model grades every card behind one shared problem, and the
 * expected-utility search of `estimate` makes the choice. So prices, waits, weights and limits act exactly.
 */
export function createJudgePolicy(options: JudgePolicyOptions): Policy {
  const { name, engine, contract, readProblem = readByCues, skillCounts = noSkillCounts, decisionMs } = options;
  const grade = createGrader(paced(engine), () => engine.info.weightsHash, contract);
  const { contextTokens } = engine.info;
  return {
    name,
    backend: 'llama',
    contract: contract.name,
    // The problem, the questions behind it and the wish, each at most a context.
    bound: usageOf({ inputTokens: 3 * contextTokens, calls: 2 }),
    decide: async (input) => {
      const inTime = boundedBy(decisionMs, input.timeLeftMs, grade);
      const wish = await readWish(input, inTime, contract);
      const cards = await gradeCards(input, inTime, contextTokens, contract);
      const domains = domainsNamed([...cards.grades.keys()]);
      const reading = await readProblem(input.problem, domains, input.signal);
      const beliefs = gradedBeliefs(cards.grades, reading, skillCounts, contract);
      const weights = wish.weights ?? input.weights;
      return {
        ...weighCandidates({ ...input, weights }, beliefs, contract),
        ...(wish.weights ? { weights: wish.weights } : {}),
        domains: reading.domains,
        usage: addUsage(wish.usage, cards.usage),
      };
    },
  };
}

/** All that one decision asks shares one deadline; past it, the engine gives the question up as `busy`. */
function boundedBy(decisionMs: number | undefined, timeLeftMs: number, grade: Grader): Grader {
  if (decisionMs === undefined) return grade;
  const endsAtMs = performance.now() + Math.min(decisionMs, timeLeftMs * decisionShare);
  return (request) => grade({ ...request, deadlineMs: Math.max(1, endsAtMs - performance.now()) });
}

/** What a wish in words weighs; what the caller gave as a number stands. */
async function readWish(
  input: PolicyInput,
  grade: Grader,
  contract: BeliefsContract,
): Promise<{ readonly weights: Weights | undefined; readonly usage: Usage }> {
  const { instruction = '', statedWeights } = input;
  if (instruction.trim() === '' || statedWeights.length === weightAxes.length) {
    return { weights: undefined, usage: noUsage };
  }
  const { grades, usage } = await grade({
    ...askerOf(input),
    prompt: wishPrefix(instruction, contract),
    questions: wishBranches(contract),
  });
  const read = wishWeights(grades.map((row) => expectedOf(row, contract.weights)));
  const stated = Object.fromEntries(statedWeights.map((axis) => [axis, input.weights[axis]]));
  return { weights: { ...read, ...stated, tools: input.weights.tools }, usage };
}

/** Every slot of the turn is asked about once, whatever it could be chosen for. */
async function gradeCards(input: PolicyInput, grade: Grader, contextTokens: number, contract: BeliefsContract) {
  const slots = [...new Set(input.candidates.map(({ slot }) => slot))];
  const { problem, conversation, evidence } = input;
  const questions = slots.map((slot) => cardBranch(slot, slot.role, contract));
  const { grades, usage } = await inWindow((share) => {
    const judged = { problem, conversation, evidence, contextTokens: Math.floor(contextTokens * share) };
    return grade({ ...askerOf(input), prompt: problemPrefix(judged, contract), questions });
  });
  return { grades: new Map(slots.map((slot, index) => [slot, grades[index] ?? []])), usage };
}

const askerOf = ({ askedBy, privateTo, turn, signal }: PolicyInput) => ({
  askedBy,
  privateTo,
  inProgress: turn > 1,
  signal,
});

function gradedBeliefs(
  grades: ReadonlyMap<Slot, Grades>,
  { domains, coincidence, comparable }: ProblemReading,
  counts: SkillCounts,
  { chances, gains, levels }: BeliefsContract,
): Beliefs {
  const meanOf = (slot: Slot, values: readonly number[]) => expectedOf(grades.get(slot) ?? [], values);
  return {
    prior: { levels: levels.map(() => 1 / levels.length), coincidence },
    comparable,
    chancesOf: (slot): Chances => spreadOverLevels(taughtChance(meanOf(slot, chances), slot, domains, counts), levels),
    gainOf: ({ slot }) => meanOf(slot, gains),
  };
}
