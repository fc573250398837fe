import { promptTokensOf, usageOf } from '../cost/usage.ts';
import type { OrchestraError } from '../errors.ts';
import type { EffectivePreferences } from '../preferences/request.ts';
import { storedRun } from '../router/record.ts';
import type { RunRecord, RunWarning } from '../router/run.ts';
import type { JsonObject } from '../upstream/relay-request.ts';
import type { RelayedModel, ServerParts } from './parts.ts';
import type { Bill } from './relay-charge.ts';
import { relayReportOf, usageOf as wireUsageOf } from './report.ts';

/** One relayed request, for reports. */
export interface RelayFacts {
  readonly runId: string;
  readonly keyName: string;
  readonly requestedModel: string;
  readonly model: RelayedModel;
  readonly preferences: EffectivePreferences;
  readonly warnings: readonly RunWarning[];
  readonly startedAtMs: number;
}

/** Keeps the record of a relay, whatever came of it. */
export function recordRelay(
  facts: RelayFacts,
  bill: Bill,
  error: OrchestraError | undefined,
  { runs, now }: ServerParts,
): RunRecord {
  const { runId, keyName, startedAtMs } = facts;
  const record: RunRecord = {
    version: 1,
    runId,
    kind: 'relay',
    status: error ? (error.code === 'cancelled' ? 'cancelled' : 'failed') : 'completed',
    createdAtMs: startedAtMs,
    durationMs: now() - startedAtMs,
    requestedModel: facts.requestedModel,
    model: facts.model.slot.model,
    policy: { name: 'none', backend: 'relay', contract: 'none', contractHash: '' },
    preferences: facts.preferences,
    privacy: facts.preferences.limits.privacy,
    limitsApplied: [],
    cost: bill.cost,
    costKnown: bill.known,
    lines: bill.lines,
    turns: [],
    sources: [],
    warnings: bill.overrun ? [...facts.warnings, overrunWarning] : facts.warnings,
    usage: clientUsage(bill),
    finishReason: undefined,
    error: error && { code: error.code, message: error.message },
  };
  runs.save(storedRun(keyName, record));
  return record;
}

const overrunWarning: RunWarning = {
  code: 'upstream_overrun',
  message: 'The upstream billed more than it was allowed to; it was booked in full.',
};

const clientUsage = ({ usage = usageOf({}) }: Bill): RunRecord['usage'] => ({
  promptTokens: promptTokensOf(usage),
  completionTokens: usage.outputTokens + usage.reasoningTokens,
  reasoningTokens: usage.reasoningTokens,
  cachedTokens: usage.cacheReadTokens,
});

/**
 * The upstream's usage with our one cost in place of its own; its other keys stay. Without any, ours in full.
 */
export function relayedUsage(upstream: unknown, record: RunRecord, parts: ServerParts, strict: boolean): object {
  const own = wireUsageOf(record, parts.prices);
  const money = strict || own.cost === undefined ? {} : { cost: own.cost, cost_details: own.cost_details };
  if (typeof upstream !== 'object' || upstream === null) {
    const { cost: _, cost_details: __, ...tokens } = own;
    return { ...tokens, ...money };
  }
  const { cost: _, cost_details: __, ...tokens } = upstream as JsonObject; // An object with any keys.
  return { ...tokens, ...money };
}

export const relayReport = (record: RunRecord, strict: boolean): JsonObject =>
  strict ? {} : { x_orchestra: relayReportOf(record) };
