import { nanoUsd } from '../../src/cost/money.ts';
import { usageOf } from '../../src/cost/usage.ts';
import { builtInProfiles } from '../../src/preferences/profiles.ts';
import { mergePreferences } from '../../src/preferences/request.ts';
import type { DecideReport, Orchestrator, RunEvent, RunRecord, RunSpec } from '../../src/router/run.ts';

export interface Script {
  readonly events?: readonly RunEvent[];
  /** Runs before the first event: to wait, or to throw as a run without an admissible slot does. */
  readonly before?: (spec: RunSpec) => Promise<void> | void;
  /** Runs before every event: to wait on what a test decides. */
  readonly between?: (spec: RunSpec, index: number) => Promise<void> | void;
  readonly record?: Partial<RunRecord>;
}

export interface ScriptedOrchestrator extends Orchestrator {
  readonly specs: readonly RunSpec[];
}

export const says = (...texts: string[]): RunEvent[] =>
  texts.map((text) => ({ type: 'answer-delta', delta: { type: 'text', text } }));

/** A loop that does what a test says, for what only exact timing can show. */
export function scriptedOrchestrator(script: Script | ((spec: RunSpec) => Script) = {}): ScriptedOrchestrator {
  const specs: RunSpec[] = [];
  const scriptOf = (spec: RunSpec) => (typeof script === 'function' ? script(spec) : script);
  return {
    specs,
    run: (spec) => {
      specs.push(spec);
      return play(spec, scriptOf(spec));
    },
    decide: async (spec) => {
      specs.push(spec);
      return decision;
    },
  };
}

async function* play(spec: RunSpec, script: Script): AsyncGenerator<RunEvent, RunRecord> {
  await script.before?.(spec);
  let index = 0;
  for (const event of script.events ?? says('Hello', ' there.')) {
    await script.between?.(spec, index);
    if (spec.signal.aborted) {
      return { ...recordOf(spec), status: 'cancelled', error: { code: 'cancelled', message: 'The client left.' } };
    }
    index += 1;
    yield event;
  }
  return { ...recordOf(spec), ...script.record };
}

const policyOfScript = {
  name: 'scripted',
  backend: 'scripted',
  contract: 'slots-1',
  contractHash: '0'.repeat(64),
};

const recordOf = ({ runId, requestedModel, preferences }: RunSpec): RunRecord =>
  aRecord({ runId, requestedModel, preferences, privacy: preferences.limits.privacy });

/** A record of an unremarkable run. */
export const aRecord = (part: Partial<RunRecord> = {}): RunRecord => ({
  version: 1,
  runId: 'run_1',
  kind: 'run',
  status: 'completed',
  createdAtMs: 1_700_000_000_000,
  durationMs: 12,
  requestedModel: 'orchestra',
  model: 'loopback/large',
  policy: policyOfScript,
  preferences: mergePreferences([], builtInProfiles, {}),
  privacy: 'any',
  limitsApplied: [],
  cost: nanoUsd(1_500_000),
  costKnown: true,
  lines: [
    {
      label: 'loopback/large',
      kind: 'model',
      meter: 'answer-1',
      usage: usageOf({ inputTokens: 100, outputTokens: 20, calls: 1 }),
      cost: nanoUsd(1_500_000),
      estimated: false,
    },
  ],
  turns: [
    {
      turn: 1,
      role: 'answer',
      slot: 'answer-1',
      model: 'loopback/large',
      probability: 0.8,
      candidates: [
        {
          role: 'answer',
          slot: 'answer-1',
          probability: 0.8,
          policyProbability: 0.7,
          expectedCost: nanoUsd(1_000_000),
          expectedLatencyMs: 900,
        },
      ],
      decidedBy: 'scripted',
      expectedCost: nanoUsd(1_000_000),
      expectedLatencyMs: 900,
      cost: nanoUsd(1_500_000),
      latencyMs: 11,
      outcome: 'answered',
      ruledOut: [],
    },
  ],
  sources: [],
  warnings: [],
  usage: { promptTokens: 9, completionTokens: 4, reasoningTokens: 0, cachedTokens: 0 },
  finishReason: 'stop',
  error: undefined,
  ...part,
});

const decision: DecideReport = {
  policy: policyOfScript,
  decidedBy: 'scripted',
  role: 'answer',
  slot: 'answer-1',
  candidates: [],
  weights: mergePreferences([], builtInProfiles, {}).weights,
  limitsApplied: [],
  ruledOut: [],
  warnings: [],
};
