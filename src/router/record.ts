import type { Contract } from '../contract/schema.ts';
import { addUsd, zeroUsd } from '../cost/money.ts';
import type { Policy } from './policy.ts';
import type { ClientUsage, RunRecord, RunStatus } from './run.ts';
import type { RunState } from './run-state.ts';

interface RecordContext {
  readonly policy: Policy;
  readonly contract: Pick<Contract, 'hash'>;
  readonly now: () => number;
}

const nothingUsed: ClientUsage = { promptTokens: 0, completionTokens: 0, reasoningTokens: 0, cachedTokens: 0 };

/** The run as reports and the store show it: money and decisions, no texts. */
export function recordOf(state: RunState, { policy, contract, now }: RecordContext): RunRecord {
  const { spec, lines, answer } = state;
  return {
    version: 1,
    runId: spec.runId,
    kind: 'run',
    status: statusOf(state),
    createdAtMs: state.startedAtMs,
    durationMs: now() - state.startedAtMs,
    requestedModel: spec.requestedModel,
    model: answer?.slot.model,
    policy: policyInfo(policy, contract),
    preferences: spec.preferences,
    limitsApplied: state.limitsApplied,
    cost: addUsd(zeroUsd, ...lines.flatMap(({ cost }) => cost ?? [])),
    costKnown: lines.every(({ cost }) => cost !== undefined),
    lines,
    turns: state.turns,
    warnings: state.warnings,
    usage: answer?.usage ?? nothingUsed,
    finishReason: answer?.finishReason,
    error: state.error,
  };
}

export const policyInfo = (policy: Policy, { hash }: Pick<Contract, 'hash'>): RunRecord['policy'] => ({
  name: policy.name,
  backend: policy.backend,
  contract: policy.contract,
  contractHash: hash,
});

function statusOf({ error, forcedBy }: RunState): RunStatus {
  if (error) return error.code === 'cancelled' ? 'cancelled' : 'failed';
  return forcedBy ? 'limited' : 'completed';
}

/** As it is stored: the instruction is the caller's text, and records hold no texts. */
export function storedRecord(record: RunRecord): string {
  return JSON.stringify({ ...record, preferences: { ...record.preferences, instruction: undefined } });
}
