import type { SlotRole } from '../preferences/slot.ts';
import { deliverableAttempts } from './apply.ts';
import type { Attempt, Evidence } from './evidence.ts';
import type { Contract, ContractRole } from './schema.ts';

/** One thing that the rules of the contract let a policy do this turn, before limits, money and time are asked. */
export interface OpenChoice {
  /** How the policy names it: the slot's id, or `attempt-N` for delivering that attempt. */
  readonly id: string;
  readonly role: ContractRole;
  /** Who would be called; for a delivery, who wrote the attempt. */
  readonly slot: string;
  readonly delivers: Attempt | undefined;
}

export interface OpenChoices {
  readonly open: readonly OpenChoice[];
  readonly withdrawn: readonly { readonly slot: string; readonly reason: string }[];
}

type Budgets = Contract['budgets'];

/**
 * What is open at a state of the evidence. Tools that have done their part leave, so that a run cannot turn in circles.
 * @param attempts whether the policy's contract knows attempts and their delivery, and the request admits them.
 */
export function openChoices(
  slots: readonly { readonly id: string; readonly role: SlotRole }[],
  evidence: Evidence,
  budgets: Budgets,
  attempts: boolean,
): OpenChoices {
  const withdrawn: { slot: string; reason: string }[] = [];
  const mayAttempt = attempts && evidence.attempts.length < budgets.attempts;
  const calls = slots.flatMap(({ id, role }): OpenChoice[] => {
    const reason = withdrawal(role, evidence, budgets);
    if (reason !== undefined) withdrawn.push({ slot: id, reason });
    const roles = reason === undefined ? rolesOf(role, mayAttempt) : [];
    return roles.map((open) => ({ id, role: open, slot: id, delivers: undefined }));
  });
  const deliveries = attempts ? deliverableAttempts(evidence).map(deliveryOf) : [];
  return { open: [...calls, ...deliveries], withdrawn };
}

function withdrawal(role: SlotRole, { documents, codeRuns }: Evidence, budgets: Budgets): string | undefined {
  if (role === 'search' && documents.length > 0) return 'documents are there already';
  // The same problem and evidence would only be calculated the same way again.
  if (role === 'enhance_reasoning' && codeRuns.length >= budgets.codeRuns) return 'code ran often enough';
  return undefined;
}

function rolesOf(role: SlotRole, mayAttempt: boolean): readonly ContractRole[] {
  if (role !== 'answer') return [role];
  return mayAttempt ? ['attempt', 'answer'] : ['answer'];
}

const deliveryOf = (attempt: Attempt): OpenChoice => ({
  id: attempt.id,
  role: 'answer',
  slot: attempt.slot,
  delivers: attempt,
});
