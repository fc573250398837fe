import type { EvidenceDocument } from '../contract/evidence.ts';
import type { Contract } from '../contract/schema.ts';
import { addUsd, zeroUsd } from '../cost/money.ts';
import { isPrivate } from '../preferences/privacy.ts';
import type { StoredRun } from '../store/runs.ts';
import type { Policy } from './policy.ts';
import type { ClientUsage, RunRecord, RunSource, RunStatus } from './run.ts';
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
    preferences: { ...spec.preferences, weights: state.weights },
    privacy: state.privacy,
    limitsApplied: state.limitsApplied,
    cost: addUsd(zeroUsd, ...lines.flatMap(({ cost }) => cost ?? [])),
    costKnown: lines.every(({ cost }) => cost !== undefined),
    lines,
    turns: state.turns,
    sources: sourcesOf(state.evidence.documents),
    warnings: state.warnings,
    usage: answer?.usage ?? nothingUsed,
    finishReason: answer?.finishReason,
    error: state.error,
    ...(state.domains ? { domains: Object.fromEntries(state.domains) } : {}),
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

/** What can be cited, each once. An address that is neither a web page nor a file of ours is nothing to open. */
function sourcesOf(documents: readonly EvidenceDocument[]): RunSource[] {
  const found = documents.flatMap(({ source, title, url = '' }) =>
    /^(https?|file):/i.test(url) && URL.canParse(url) ? [{ tool: source, title: title || url, url }] : [],
  );
  return [...new Map(found.map((source) => [source.url, source])).values()];
}

/**
 * As it is stored. The instruction is the caller's text, and a quote may be; records hold no texts. What a private run
 * read is nobody's business afterwards.
 */
export function storedRun(keyName: string, record: RunRecord): StoredRun {
  const { runId: id, createdAtMs, kind, status, requestedModel, model } = record;
  const preferences = { ...record.preferences, instruction: undefined };
  const readings = isPrivate(record.privacy) ? { sources: [], domains: undefined } : {};
  const error = record.error && { ...record.error, quote: undefined };
  const text = JSON.stringify({ ...record, preferences, error, ...readings });
  return { id, keyName, createdAtMs, kind, status, requestedModel, model, record: text };
}
