import type { Ledger } from '../cost/ledger.ts';
import { formatUsd, type NanoUsd, nanoUsd, toUsdNumber, zeroUsd } from '../cost/money.ts';
import { mergeLines, type PriceBook, type PricedUsage } from '../cost/price-book.ts';
import { promptTokensOf } from '../cost/usage.ts';
import type { LimitApplied, Needs } from '../preferences/limits.ts';
import type { EffectivePreferences } from '../preferences/request.ts';
import type { CandidateRecord, DecideReport, RunRecord, RunSpec, TurnRecord } from '../router/run.ts';
import type { Feedback } from '../store/run-texts.ts';
import type { FoundRun } from '../store/runs.ts';
import type { Conversation } from './kept-texts.ts';
import type { WireUsage } from './wire.ts';

/** RunRecord in the words of the API: what clients, the run endpoint and the headers show. */

export type Report = Readonly<Record<string, unknown>>;

const mostInlineBytes = 32 * 1024;

/** `x_orchestra` of an answer, cut to what fits beside it; the run endpoint has the whole. */
export function inlineReport(record: RunRecord): Report {
  const { explain } = record.preferences;
  const { sources } = record;
  const answer = { ...head(record), ...(sources.length === 0 ? {} : { sources }) };
  const whole = { ...answer, ...(explain === 'none' ? {} : { turns: record.turns.map(turnReport) }) };
  if (explain === 'full' && fits(whole)) return whole;
  const summary = { ...whole, ...(explain === 'none' ? {} : { turns: record.turns.map(turnSummary) }) };
  const marked = explain === 'full' ? { ...summary, truncated: true } : summary;
  if (fits(marked)) return marked;
  const { version, run_id, status, policy, model, cost } = head(record);
  return { version, run_id, status, policy, model, cost: { ...cost, by_model: [], by_tool: [] }, truncated: true };
}

/** A relay has no turns and few warnings, so there is nothing to cut and nothing to measure. */
export const relayReportOf = (record: RunRecord): Report => head(record);

const fits = (report: Report): boolean => Buffer.byteLength(JSON.stringify(report)) <= mostInlineBytes;

/** One line of a list. */
export function listedReport(record: RunRecord, found: FoundRun): Report {
  const { run_id, status, model, cost } = head(record);
  const { currency, total } = cost;
  return { run_id, status, model, cost: { currency, total }, ...circumstances(record), ...afterwards(found) };
}

const circumstances = (record: RunRecord) => ({
  kind: record.kind,
  created: Math.floor(record.createdAtMs / 1000),
  duration_ms: record.durationMs,
  requested_model: record.requestedModel,
});

/** What came after the run. */
const afterwards = ({ feedback, textsErased }: FoundRun) => ({
  ...(feedback ? { feedback: feedbackReport(feedback) } : {}),
  ...(textsErased ? { texts_erased: true } : {}),
});

export const feedbackReport = ({ score, comment, atMs }: Feedback) => ({
  score,
  ...(comment === undefined ? {} : { comment }),
  created: Math.floor(atMs / 1000),
});

/** Everything, for the run endpoint. */
export function foundReport(record: RunRecord, found: FoundRun): Report {
  return {
    ...head(record),
    ...circumstances(record),
    privacy: record.privacy,
    finish_reason: record.finishReason ?? null,
    turns: record.turns.map(turnReport),
    sources: record.sources,
    ...(record.domains ? { domains: record.domains } : {}),
    ...(record.error ? { failure: { code: record.error.code, message: record.error.message } } : {}),
    // Written by the server, always a Conversation.
    ...(found.conversation === undefined ? {} : { texts: JSON.parse(found.conversation) as Conversation }),
    ...afterwards(found),
  };
}

export function decideReport(report: DecideReport, preferences: EffectivePreferences): Report {
  return {
    object: 'orchestra.decision',
    policy: policyReport(report.policy),
    decided_by: report.decidedBy,
    role: report.role,
    slot: report.slot,
    candidates: report.candidates.map(candidateReport),
    preferences: preferencesReport({ ...preferences, weights: report.weights }),
    limits_applied: report.limitsApplied.map(limitReport),
    warnings: report.warnings,
  };
}

/** The client's own tokens and the one cost. */
export function usageOf(record: RunRecord, prices: PriceBook): WireUsage {
  const { promptTokens, completionTokens, reasoningTokens, cachedTokens } = record.usage;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    completion_tokens_details: { reasoning_tokens: reasoningTokens },
    ...(record.costKnown ? { cost: toUsdNumber(record.cost), cost_details: costDetails(record.lines, prices) } : {}),
  };
}

export function withoutCost({ cost: _, cost_details: __, ...usage }: WireUsage): WireUsage {
  return usage;
}

export const costHeader = (record: RunRecord): Record<string, string> =>
  record.costKnown ? { 'x-orchestra-cost-usd': formatUsd(record.cost) } : {};

/** What the key may still spend today, where it has a limit. */
export function budgetHeader(
  ledger: Ledger,
  { runId, keyName, preferences }: Pick<RunSpec, 'runId' | 'keyName' | 'preferences'>,
): Record<string, string> {
  const { maxCostPerDay } = preferences.limits;
  if (maxCostPerDay === undefined) return {};
  const left = ledger.openBudget({ runId, keyName, maxCostPerDay, maxCost: undefined }).remaining() ?? zeroUsd;
  return { 'x-orchestra-budget-remaining-usd': formatUsd(left) };
}

function costDetails(lines: readonly PricedUsage[], prices: PriceBook): Record<string, number> {
  const sum = (kind: (line: PricedUsage) => boolean) =>
    lines.filter(kind).reduce((total, { cost }) => total + (cost ?? 0), 0);
  return {
    orchestrator: sum(({ kind }) => kind === 'policy') / 1e9,
    tools: sum(({ kind }) => kind !== 'policy') / 1e9,
    saved_by_cache: toUsdNumber(savedByCache(lines, prices)),
  };
}

function savedByCache(lines: readonly PricedUsage[], prices: PriceBook): NanoUsd {
  const saved = lines.reduce((total, { meter, usage }) => {
    const rates = prices.get(meter)?.rates;
    return rates ? total + BigInt(usage.cacheReadTokens) * (rates.input - rates.cacheRead) : total;
  }, 0n);
  return saved > 0n ? nanoUsd(Number(saved / 1_000_000n)) : zeroUsd;
}

function head(record: RunRecord) {
  const lines = mergeLines(record.lines);
  return {
    version: record.version,
    run_id: record.runId,
    status: record.status,
    policy: policyReport(record.policy),
    model: record.model ?? null,
    preferences: preferencesReport(record.preferences),
    limits_applied: record.limitsApplied.map(limitReport),
    cost: {
      currency: 'USD',
      total: record.costKnown ? toUsdNumber(record.cost) : null,
      ...(record.costKnown ? {} : { known_part: toUsdNumber(record.cost) }),
      estimated: record.lines.some(({ estimated }) => estimated),
      by_model: lines.filter(({ kind }) => kind !== 'tool').map(modelLine),
      by_tool: lines.filter(({ kind }) => kind === 'tool').map(toolLine),
    },
    warnings: record.warnings,
  };
}

const policyReport = ({ name, backend, contract, contractHash }: RunRecord['policy']) => ({
  name,
  backend,
  contract,
  contract_hash: contractHash,
});

const modelLine = ({ label, usage, cost, estimated }: PricedUsage) => ({
  model: label,
  calls: usage.calls,
  input_tokens: promptTokensOf(usage),
  cached_tokens: usage.cacheReadTokens,
  output_tokens: usage.outputTokens + usage.reasoningTokens,
  duration_ms: usage.durationMs,
  cost: usdOrNull(cost),
  ...(estimated ? { estimated } : {}),
});

const toolLine = ({ label, usage, cost }: PricedUsage) => ({
  tool: label,
  calls: usage.calls,
  duration_ms: usage.durationMs,
  cost: usdOrNull(cost),
});

const usdOrNull = (amount: NanoUsd | undefined): number | null => (amount === undefined ? null : toUsdNumber(amount));

export const candidateReport = (candidate: CandidateRecord) => ({
  role: candidate.role,
  slot: candidate.slot,
  probability: candidate.probability,
  policy_probability: candidate.policyProbability,
  ...(candidate.pRight === undefined ? {} : { p_right: candidate.pRight }),
  predicted: { cost_usd: usdOrNull(candidate.expectedCost), latency_ms: candidate.expectedLatencyMs },
});

const turnSummary = (turn: TurnRecord) => ({
  turn: turn.turn,
  role: turn.role,
  slot: turn.slot,
  model: turn.model,
  probability: turn.probability,
  decided_by: turn.decidedBy,
  predicted: { cost_usd: usdOrNull(turn.expectedCost), latency_ms: turn.expectedLatencyMs },
  actual: { cost_usd: usdOrNull(turn.cost), latency_ms: turn.latencyMs },
  outcome: turn.outcome,
});

export const turnReport = (turn: TurnRecord) => ({
  ...turnSummary(turn),
  candidates: turn.candidates.map(candidateReport),
  ruled_out: turn.ruledOut,
});

export const limitReport = ({ limit, value, ...rest }: LimitApplied) => ({
  limit,
  value: limitValue(limit, value),
  ...rest,
});

/** As the API writes it: dollars for nano-dollars, its own words for what a request needs. */
function limitValue(limit: string, value: unknown): unknown {
  if (limit.startsWith('max_cost_usd') && typeof value === 'number') return value / 1e9;
  if (limit !== 'capabilities') return value;
  const { input, clientTools, jsonSchema, contextTokens } = value as Needs; // What `maskSlots` puts there.
  return { input, client_tools: clientTools, json_schema: jsonSchema, context_tokens: contextTokens };
}

function preferencesReport({ profile, weights, instruction, limits, ...wishes }: EffectivePreferences): Report {
  return {
    optimize: profile,
    weights,
    ...(instruction === undefined ? {} : { instruction }),
    ...(limits.maxCost === undefined ? {} : { max_cost_usd: toUsdNumber(limits.maxCost) }),
    ...(limits.maxLatencyMs === undefined ? {} : { max_latency_ms: limits.maxLatencyMs }),
    ...(limits.maxTurns === undefined ? {} : { max_turns: limits.maxTurns }),
    privacy: limits.privacy,
    ...(limits.regions === undefined ? {} : { regions: limits.regions }),
    ...(limits.allow.length + limits.deny.length === 0 ? {} : { tools: { allow: limits.allow, deny: limits.deny } }),
    on_limit: wishes.onLimit,
    explain: wishes.explain,
    progress: wishes.progress,
    ...(wishes.sessionId === undefined ? {} : { session_id: wishes.sessionId }),
  };
}
