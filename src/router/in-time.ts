import type { TurnOption } from './turn-option.ts';

export type ForcingLimit = 'max_turns' | 'max_cost_usd' | 'max_latency_ms';

interface Timed {
  readonly options: readonly TurnOption[];
  /** The limit that left nothing but answers. */
  readonly forcedBy: ForcingLimit | undefined;
}

/**
 * Leaves out what the time or the turns left do not admit. Late is better than never: when no answer is expected in
 * time, all of them stay.
 * @param ruleOut is told each option that falls.
 */
export function inTime(
  affordable: readonly TurnOption[],
  { turnsLeft, timeLeftMs }: { readonly turnsLeft: number; readonly timeLeftMs: number },
  ruleOut: (id: string, reason: string) => void,
): Timed {
  const answers = affordable.filter(({ role }) => role === 'answer');
  const steps = affordable.filter(({ role }) => role !== 'answer');
  const punctual = answers.filter(({ expectedLatencyMs }) => expectedLatencyMs < timeLeftMs);
  const keptAnswers = punctual.length > 0 ? punctual : answers;
  const quickest = Math.min(...answers.map(({ expectedLatencyMs }) => expectedLatencyMs));
  // An attempt can be delivered at once; everything else needs an answer after it.
  const followUpMs = ({ role }: TurnOption) => (role === 'attempt' ? 0 : quickest);
  const punctualSteps = steps.filter((step) => step.expectedLatencyMs + followUpMs(step) < timeLeftMs);
  const keptSteps = turnsLeft > 1 ? punctualSteps : [];
  for (const { id } of dropped(answers, keptAnswers)) ruleOut(id, 'too slow for the time left');
  for (const { id } of dropped(steps, punctualSteps)) ruleOut(id, 'too slow for the time left');
  for (const { id } of dropped(punctualSteps, keptSteps)) ruleOut(id, 'this turn must answer');
  return {
    options: [...keptSteps, ...keptAnswers],
    forcedBy: keptSteps.length > 0 ? undefined : forcingLimit(steps, punctualSteps),
  };
}

const dropped = (before: readonly TurnOption[], after: readonly TurnOption[]): readonly TurnOption[] =>
  before.filter((option) => !after.includes(option));

function forcingLimit(affordable: readonly TurnOption[], punctual: readonly TurnOption[]): ForcingLimit {
  if (affordable.length === 0) return 'max_cost_usd';
  return punctual.length === 0 ? 'max_latency_ms' : 'max_turns';
}
