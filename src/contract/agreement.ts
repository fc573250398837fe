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
  const members = groups.reduce((sum, group) => sum + group.length, 0);
  // Of wrong answers in so many groups: the first of a group is free, the others coincide, and the groups do not.
  const coincidences = (wrong: number, groupCount: number): number =>
    prior.coincidence ** (wrong - groupCount) * (1 - prior.coincidence) ** Math.max(0, groupCount - 1);
  const levels: number[] = [];
  const right = groups.map(() => 0);
  let likelihood = 0;
  for (const [level, weight] of prior.levels.entries()) {
    let ofLevel = weight * coincidences(members, groups.length) * chanceOf(groups, undefined, level);
    for (const [index, group] of groups.entries()) {
      const spelling = coincidences(members - group.length, groups.length - 1);
      const joint = weight * spelling * chanceOf(groups, index, level);
      right[index] = (right[index] ?? 0) + joint;
      ofLevel += joint;
    }
    levels.push(ofLevel);
    likelihood += ofLevel;
  }
  return {
    likelihood,
    levels: levels.map((value) => value / likelihood),
    right: right.map((value) => value / likelihood),
  };
}

/** Chance that at this level exactly the members of one group are right; of none, when there is no such group. */
function chanceOf(groups: readonly (readonly Chances[])[], rightGroup: number | undefined, level: number): number {
  let product = 1;
  for (const [index, group] of groups.entries()) {
    for (const chances of group) {
      const chance = chances[level] ?? 0;
      product *= index === rightGroup ? chance : 1 - chance;
    }
  }
  return product;
}
