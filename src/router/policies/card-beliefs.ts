import type { Evidence } from '../../contract/evidence.ts';
import type { Beliefs } from '../../contract/expected-utility.ts';
import type { Slot, SlotRole } from '../../preferences/slot.ts';

/** Chance of a right answer that a word of praise or blame in a card stands for; the first match counts. */
const grades: readonly (readonly [RegExp, number])[] = [
  [/\b(strongest|best|excellent|state of the art|frontier)\b/i, 0.9],
  [/\b(very strong|very good|advanced)\b/i, 0.85],
  [/\bvery (small|weak|limited)\b/i, 0.25],
  [/\b(strong|capable)\b/i, 0.8],
  [/\b(good|solid|reliable)\b/i, 0.72],
  [/\b(fair|average|decent|medium|mid-size)\b/i, 0.6],
  [/\b(small|light|basic|simple|cheap)\b/i, 0.5],
  [/\b(weak|poor|limited|tiny)\b/i, 0.3],
];
const unknownGrade = 0.6;

/** Fields that cards and problems name in words; a specialist's grade counts in its field only. */
const fields: Readonly<Record<string, RegExp>> = {
  math: /\b(math\w*|algebra|calculus|equation|theorem|integral|probability|geometry|proof)\b|\d\s*[-+*/^=]\s*\d/i,
  code: /\b(code|coding|program\w*|python|javascript|typescript|function|bug|compile\w*|sql|regex|script)\b/i,
};

const factCues =
  /\b(latest|today|current(ly)?|news|recent(ly)?|who (is|was)|when (did|was|is)|where (is|do)|according to|docs?|documentation|document(s|ed)?|our|this project|configur\w*|which (file|option|setting|version)|how do i|price of|version of|source)\b/i;
const calculationCues =
  /\b(calculate|compute|how many|how much|sum of|product of|average of|percent(age)?|simulate|convert|days between)\b|\d+(\.\d+)?\s*[-+*/^%×]\s*\d+/i;

/** What an answer loses when the evidence that the problem calls for is missing. */
const lossWithoutFacts = 0.45;
const lossWithoutCalculation = 0.35;
/** How much of that loss a search makes good, on average; a calculation does as far as its programmer is good. */
const searchHitChance = 0.7;

interface Needs {
  readonly facts: boolean;
  readonly calculation: boolean;
}

/** Grade of a card, 0 to 1: measured skills where the operator has them, words otherwise. */
export function gradeOf(slot: Slot, problem: string): number {
  const field = Object.keys(fields).find((name) => fields[name]?.test(problem));
  const measured = field === undefined ? undefined : slot.skills[field];
  if (measured !== undefined) return measured;
  const skills = Object.values(slot.skills);
  if (skills.length > 0) return skills.reduce((sum, skill) => sum + skill, 0) / skills.length;
  const word = gradeInWords(slot);
  const specialty = Object.keys(fields).find((name) => fields[name]?.test(slot.quality));
  if (specialty === undefined) return word;
  return specialty === field ? Math.min(0.95, word + 0.1) : word * 0.6;
}

const gradeInWords = ({ quality }: Slot): number =>
  grades.find(([pattern]) => pattern.test(quality))?.[1] ?? unknownGrade;

/** Whatever the problem is about, whoever calculates writes a program. */
const programmingGrade = (slot: Slot): number => slot.skills['code'] ?? gradeInWords(slot);

/** Share of a loss that remains once a slot with this role has done its part. */
function remaining(need: SlotRole, filled: Slot | undefined): number {
  if (filled?.role !== need) return 1;
  return 1 - (need === 'search' ? searchHitChance : programmingGrade(filled));
}

/**
 * Beliefs of the first form of `estimate`: grades read from the cards, and a few cues in the problem that say which
 * evidence it calls for. No language model is asked.
 */
export function cardBeliefs(problem: string, evidence: Evidence, slots: ReadonlyMap<string, Slot>): Beliefs {
  const needs: Needs = {
    facts: factCues.test(problem) && evidence.documents.length === 0,
    calculation: calculationCues.test(problem) && evidence.codeRuns.length === 0,
  };
  const chance = (answerId: string, filled?: Slot): number => {
    const slot = slots.get(answerId);
    if (!slot) return 0;
    const factLoss = needs.facts ? lossWithoutFacts * remaining('search', filled) : 0;
    const calculationLoss = needs.calculation ? lossWithoutCalculation * remaining('enhance_reasoning', filled) : 0;
    return gradeOf(slot, problem) * (1 - factLoss) * (1 - calculationLoss);
  };
  return {
    now: (answerId) => chance(answerId),
    after: (answerId, prepareId) => chance(answerId, slots.get(prepareId)),
  };
}
