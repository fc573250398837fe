import type { Chances } from '../../contract/agreement.ts';
import type { Slot } from '../../preferences/slot.ts';
import type { Candidate, PolicyInput } from '../policy.ts';
import { logit, sigmoid } from './heads.ts';
import type { ProblemReading } from './problem-reading.ts';
import { elsewhere, programmingSkill, type SkillCounts, skillIn } from './skills.ts';
import type { Beliefs } from './weigh-candidates.ts';

/** What an answer loses when the evidence that the problem calls for is missing. */
const lossWithoutFacts = 0.45;
const lossWithoutCalculation = 0.35;
/** How much of that loss a search makes good, on average; a calculation does as far as its programmer is good. */
const searchHitChance = 0.7;
/** Nobody is sure of anything. */
const leastChance = 0.01;

/** What `estimate` believes: from the cards' numbers or words, and what the problem looks like. */
export function cardBeliefs(input: PolicyInput, reading: ProblemReading, counts: SkillCounts): Beliefs {
  const left = evidenceShare(reading, input);
  return {
    prior: { levels: reading.levelWeights, coincidence: reading.coincidence },
    comparable: reading.comparable,
    chancesOf: (slot) => chancesOf(slot, reading, counts, left),
    gainOf: (candidate) => gainOf(candidate, reading, input, counts),
  };
}

/**
 * Σ over domains of P(domain | problem) × skill, shifted by difficulty, at each level of what the text does not show.
 */
function chancesOf(slot: Slot, reading: ProblemReading, counts: SkillCounts, evidenceShare: number): Chances {
  let named = 0;
  let skill = 0;
  for (const [domain, chance] of reading.domains) {
    named += chance;
    skill += chance * skillIn(slot, domain, counts);
  }
  skill += Math.max(0, 1 - named) * skillIn(slot, elsewhere, counts);
  // Averaging over levels draws chances towards one half; widening the log-odds first gives the skill back.
  const spread = reading.levels.reduce((sum, level, index) => sum + (reading.levelWeights[index] ?? 0) * level ** 2, 0);
  const middle = (logit(sure(skill)) + reading.shift) * Math.sqrt(1 + (Math.PI / 8) * spread);
  return reading.levels.map((level) => sure(sigmoid(middle + level) * evidenceShare));
}

const sure = (chance: number): number => Math.min(1 - leastChance, Math.max(leastChance, chance));

/**
 * Share of an answer's chance that is left for want of evidence. Where nobody can get it there is nothing to weigh:
 * cards were measured without it, and taking the same from all would only make their differences count less.
 */
function evidenceShare({ needs }: ProblemReading, { evidence, candidates }: PolicyInput): number {
  const roles = new Set(candidates.map(({ role }) => role));
  const missesFacts = evidence.documents.length === 0 && roles.has('search');
  const missesCalculation = evidence.codeRuns.length === 0 && roles.has('enhance_reasoning');
  return (
    share(missesFacts ? factNeed(needs) : 0, lossWithoutFacts) *
    share(missesCalculation ? needs.calculation : 0, lossWithoutCalculation)
  );
}

/** Factor by which a search or a calculation raises the chances of the answers after it. */
function gainOf({ role, slot }: Candidate, reading: ProblemReading, input: PolicyInput, counts: SkillCounts) {
  const { needs } = reading;
  if (role === 'search') {
    const need = input.evidence.documents.length === 0 ? factNeed(needs) : 0;
    const left = need - searchHitChance * Math.min(need, foundAt(slot, needs));
    return share(left, lossWithoutFacts) / share(need, lossWithoutFacts);
  }
  const need = input.evidence.codeRuns.length === 0 ? needs.calculation : 0;
  const left = need * (1 - programmingSkill(slot, counts));
  return share(left, lossWithoutCalculation) / share(need, lossWithoutCalculation);
}

/** A need that is hardly there is none: what costs next to nothing would be fetched for every greeting. */
const leastNeed = 0.1;
const factNeed = ({ facts, documents }: ProblemReading['needs']): number => noticed(Math.max(facts, documents));
const noticed = (need: number): number => (need < leastNeed ? 0 : need);

/** How much of what is missing this slot can know: an index of our own holds no fresh facts. */
const foundAt = ({ upstream }: Slot, needs: ProblemReading['needs']): number =>
  upstream === 'local' ? noticed(needs.documents) : factNeed(needs);

const share = (need: number, loss: number): number => 1 - need * loss;
