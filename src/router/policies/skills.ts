import type { Slot } from '../../preferences/slot.ts';
import { fields } from './problem-reading.ts';

/** What feedback has said about one model in one domain. Fractions are fine: a problem can be of several domains. */
export interface SkillCount {
  readonly right: number;
  readonly wrong: number;
}

/** Feedback so far, by who is behind a slot: slots can be renumbered, what a model can do stays. */
export interface SkillCounts {
  find(model: string, domain: string): SkillCount | undefined;
}

export const noSkillCounts: SkillCounts = { find: () => undefined };

/** Feedback on problems that belong to none of the cards' domains. */
export const elsewhere = '';

/** How many answers' worth of trust a card gets before feedback outweighs it. */
const trustInMeasurement = 30;
const trustInWords = 6;

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

/** Every domain that a card names, in numbers or as a specialty in words. */
export function domainsNamed(slots: readonly Slot[]): readonly string[] {
  return [...new Set(slots.flatMap((slot) => [...Object.keys(slot.skills), ...(specialtyOf(slot) ?? [])]))];
}

/** Chance of a right answer in a domain (or `elsewhere`): the card's, as far as feedback has not taught better. */
export function skillIn(slot: Slot, domain: string, counts: SkillCounts): number {
  const count = counts.find(slot.model, domain);
  return Object.keys(slot.skills).length > 0
    ? taught(measuredSkill(slot, domain), trustInMeasurement, count)
    : taught(gradeInWords(slot, domain), trustInWords, count);
}

/**
 * A chance that somebody read off this very problem, as far as feedback on the slot in the problem's domains has not
 * taught better. A trained reading gets the trust of a measurement.
 */
export function taughtChance(
  chance: number,
  slot: Slot,
  domains: ReadonlyMap<string, number>,
  counts: SkillCounts,
): number {
  const inDomain = (domain: string) => taught(chance, trustInMeasurement, counts.find(slot.model, domain));
  const named = [...domains.values()].reduce((sum, share) => sum + share, 0);
  return [...domains].reduce(
    (sum, [domain, share]) => sum + share * inDomain(domain),
    Math.max(0, 1 - named) * inDomain(elsewhere),
  );
}

/** Mean of a Beta distribution that began with so many answers' worth of trust. */
const taught = (chance: number, trust: number, { right, wrong }: SkillCount = { right: 0, wrong: 0 }): number =>
  (trust * chance + right) / (trust + right + wrong);

function measuredSkill({ skills }: Slot, domain: string): number {
  const all = Object.values(skills);
  return skills[domain] ?? all.reduce((sum, skill) => sum + skill, 0) / all.length;
}

function gradeInWords(slot: Slot, domain: string): number {
  const word = grades.find(([pattern]) => pattern.test(slot.quality))?.[1] ?? unknownGrade;
  const specialty = specialtyOf(slot);
  if (specialty === undefined) return word;
  // A specialist's grade counts in its field only.
  return specialty.includes(domain) ? Math.min(0.95, word + 0.1) : word * 0.6;
}

function specialtyOf({ quality }: Slot): readonly string[] | undefined {
  const found = Object.keys(fields).filter((name) => fields[name]?.test(quality));
  return found.length === 0 ? undefined : found;
}

/** Whatever the problem is about, whoever calculates writes a program. */
export const programmingSkill = (slot: Slot, counts: SkillCounts): number => skillIn(slot, 'code', counts);
