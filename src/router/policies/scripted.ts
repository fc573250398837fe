import { noUsage } from '../../cost/usage.ts';
import type { DecisionRole, Policy } from '../policy.ts';

/** What a script wants at one turn: a slot (or `attempt-N`), or whatever is first in a role. */
export interface ScriptedChoice {
  readonly role: DecisionRole;
  readonly slot?: string;
}

/** Follows a list of choices, one a turn; where the list ends or the wish is not admissible, every candidate is equal. */
export function createScriptedPolicy(script: readonly ScriptedChoice[], contract = 'slots-1'): Policy {
  return {
    name: 'scripted',
    backend: 'scripted',
    contract,
    bound: noUsage,
    decide: async ({ candidates, turn }) => {
      const wish = script[turn - 1];
      const wanted = candidates.findIndex(
        ({ id, role }) => role === wish?.role && (wish.slot === undefined || wish.slot === id),
      );
      const probabilities = candidates.map((_, index) => {
        if (wanted < 0) return 1 / candidates.length;
        return index === wanted ? 1 : 0;
      });
      return { probabilities, weighted: true, usage: noUsage };
    },
  };
}
