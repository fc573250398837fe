/** Chance of a right answer at each level of difficulty, the levels in one order for every slot. */
export type Chances = readonly number[];

/** What is believed of a problem before anything was tried. */
export interface ProblemPrior {
  /** Chance of each level of difficulty; sums to 1. What slots share beyond their skill is here. */
  readonly levels: readonly number[];
  /** Chance that two wrong answers are equal. */
  readonly coincidence: number;
}

export interface Agreement {
  /** How likely it was that the attempts agree and differ just like this. */
  readonly likelihood: number;
  /** Levels of difficulty in the light of it. */
  readonly levels: readonly number[];
  /** Chance that each group's answer is the right one. */
  readonly right: readonly number[];
}

/**
 * Bayes' rule over attempts that were sorted into groups of equal answers. At most one group can be right; at a known
 * level of difficulty attempts err independently, and wrong ones coincide by chance.
 * @param groups for each group the chances of those who gave its answer, taken before the attempt.
 */
export function weighAgreement(groups: readonly (readonly Chances[])[], prior: ProblemPrior): Agreement {
  const sizes = groups.map((group) => group.length);
  // Index −1: nobody is right.
  const hypotheses = [-1, ...groups.keys()].map((right) => ({
    right,
    spelling: coincidences(
      sizes.filter((_, index) => index !== right),
      prior.coincidence,
    ),
  }));
  const joint = prior.levels.map((weight, level) =>
    hypotheses.map(({ right, spelling }) => weight * spelling * chanceOf(groups, right, level)),
  );
  const byLevel = joint.map((row) => sum(row));
  const likelihood = sum(byLevel);
  return {
    likelihood,
    levels: byLevel.map((value) => value / likelihood),
    right: groups.map((_, group) => sum(joint.map((row) => row[group + 1] ?? 0)) / likelihood),
  };
}

/** Chance that exactly the group `right` is right at this level. */
const chanceOf = (groups: readonly (readonly Chances[])[], right: number, level: number): number =>
  groups.reduce(
    (product, group, index) =>
      group.reduce((inner, chances) => {
        const chance = chances[level] ?? 0;
        return inner * (index === right ? chance : 1 - chance);
      }, product),
    1,
  );

/** Chance that wrong answers fall into groups of these sizes. */
const coincidences = (sizes: readonly number[], coincidence: number): number =>
  coincidence ** (sum(sizes) - sizes.length) * (1 - coincidence) ** Math.max(0, sizes.length - 1);

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
