import type { Contract } from '../../contract/schema.ts';
import { noUsage } from '../../cost/usage.ts';
import type { Policy } from '../policy.ts';
import { cardBeliefs } from './card-beliefs.ts';
import { type ProblemReader, readByCues } from './problem-reading.ts';
import { domainsNamed, noSkillCounts, type SkillCounts } from './skills.ts';
import { weighCandidates } from './weigh-candidates.ts';

export interface EstimateOptions {
  readonly contract: Pick<Contract, 'name' | 'tilt' | 'budgets'>;
  /** Words alone where there is no embedding. */
  readonly readProblem?: ProblemReader | undefined;
  readonly skillCounts?: SkillCounts;
}

/** Small, so that the best option nearly always leads. */
const temperature = 0.25;

/**
 * The policy without a language model: expected utility from cards, exact prices and what the problem looks like. The
 * default until trained weights are there, and the fallback whenever a policy is unavailable.
 */
export function createEstimatePolicy(options: EstimateOptions): Policy {
  const { contract, readProblem = readByCues, skillCounts = noSkillCounts } = options;
  return {
    name: 'estimate',
    backend: 'estimate',
    contract: contract.name,
    bound: noUsage,
    decide: async (input) => {
      const domains = domainsNamed(input.candidates.map(({ slot }) => slot));
      const reading = await readProblem(input.problem, domains, input.signal);
      const beliefs = cardBeliefs(input, reading, skillCounts);
      return {
        ...weighCandidates(input, beliefs, { ...contract, temperature }),
        domains: reading.domains,
        usage: noUsage,
      };
    },
  };
}
