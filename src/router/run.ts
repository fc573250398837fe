import type { ChatMessage } from '../contract/chat.ts';
import type { NanoUsd } from '../cost/money.ts';
import type { PricedUsage } from '../cost/price-book.ts';
import type { ErrorCode } from '../errors.ts';
import type { LimitApplied, Needs } from '../preferences/limits.ts';
import type { PrivacyClass } from '../preferences/privacy.ts';
import type { EffectivePreferences } from '../preferences/request.ts';
import type { Weights } from '../preferences/weights.ts';
import type { ChatDelta, FinishReason } from '../upstream/chat.ts';
import type { DecisionRole } from './policy.ts';

/** One orchestrated request, parsed and merged: all that the loop needs to know. */
export interface RunSpec {
  readonly runId: string;
  readonly keyName: string;
  /** As the client wrote it: `orchestra:cheap`. */
  readonly requestedModel: string;
  readonly messages: readonly ChatMessage[];
  readonly needs: Needs;
  readonly preferences: EffectivePreferences;
  /** The client's `max_completion_tokens` or `max_tokens`, if any: a cap on the final answer. */
  readonly maxAnswerTokens: number | undefined;
  /** OpenAI fields that belong to the answer: temperature, stop, tools, response_format, … */
  readonly answerOptions: Readonly<Record<string, unknown>>;
  /** A streamed answer is out of our hands once begun; one that is not can still be given up for another slot's. */
  readonly streaming: boolean;
  /** After which the client gives up; undefined where it does not say. */
  readonly patienceMs?: number | undefined;
  readonly seed: number;
  /** Fires when the client leaves or cancels. */
  readonly signal: AbortSignal;
}

/** One candidate as reports show it. */
export interface CandidateRecord {
  readonly role: DecisionRole;
  readonly slot: string;
  /** After weights, what the choice was made by. */
  readonly probability: number;
  /** The policy's own π before weights. */
  readonly policyProbability: number;
  readonly pRight?: number;
  readonly expectedCost: NanoUsd | undefined;
  readonly expectedLatencyMs: number;
}

export interface TurnRecord {
  readonly turn: number;
  readonly role: DecisionRole;
  readonly slot: string;
  /** Who is behind the slot. */
  readonly model: string;
  readonly probability: number;
  readonly candidates: readonly CandidateRecord[];
  /** Who decided: the policy's name, `estimate` after a fallback, `forced` when only an answer was possible. */
  readonly decidedBy: string;
  readonly expectedCost: NanoUsd | undefined;
  readonly expectedLatencyMs: number;
  readonly cost: NanoUsd | undefined;
  readonly latencyMs: number;
  /** `answered`, `documents: 3`, `code ran`, `failed: …`, `not affordable`. */
  readonly outcome: string;
  /** Slots that were out for this turn, with the reason. */
  readonly ruledOut: readonly { readonly slot: string; readonly reason: string }[];
}

export interface RunWarning {
  readonly code: string;
  readonly message: string;
}

export type RunStatus = 'completed' | 'limited' | 'failed' | 'cancelled';

/** Tokens as the client's context gauge needs them: its own conversation and the visible answer. */
export interface ClientUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  readonly cachedTokens: number;
}

/** Why nobody answered; becomes the client's error. */
export interface RunError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly param?: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly retryAfterMs?: number;
  /** Words of somebody else that may repeat the request: for the client alone, and never stored. */
  readonly quote?: string;
}

/** A document that was in the evidence when the answer was written. */
export interface RunSource {
  /** The configured tool that found it: `docs`, `web`. */
  readonly tool: string;
  readonly title: string;
  /** A web page's address, or `file:` and the path inside the folder that was searched. */
  readonly url: string;
}

/** Everything about one run or relay except its texts; stored as JSON and rendered into `x_orchestra`. */
export interface RunRecord {
  readonly version: 1;
  readonly runId: string;
  readonly kind: 'run' | 'relay';
  readonly status: RunStatus;
  readonly createdAtMs: number;
  readonly durationMs: number;
  readonly requestedModel: string;
  /** Who answered; undefined when nobody did. */
  readonly model: string | undefined;
  readonly policy: {
    readonly name: string;
    readonly backend: string;
    readonly contract: string;
    readonly contractHash: string;
  };
  readonly preferences: EffectivePreferences;
  /** Least class that might see the run in the end: what was asked for, or more once evidence was confidential. */
  readonly privacy: PrivacyClass;
  readonly limitsApplied: readonly LimitApplied[];
  /** Sum of what was billed at known prices. */
  readonly cost: NanoUsd;
  /** False when some price is unknown: `cost` is then a lower bound and must not be shown as the total. */
  readonly costKnown: boolean;
  readonly lines: readonly PricedUsage[];
  readonly turns: readonly TurnRecord[];
  readonly sources: readonly RunSource[];
  readonly warnings: readonly RunWarning[];
  readonly usage: ClientUsage;
  readonly finishReason: FinishReason | undefined;
  /** Chance of each domain of the problem, where the policy told; what feedback is counted under. */
  readonly domains?: Readonly<Record<string, number>>;
  readonly error: RunError | undefined;
}

/** What a run tells while it works. The record itself is the generator's return value. */
export type RunEvent =
  | { readonly type: 'turn-start'; readonly turn: number }
  | {
      readonly type: 'decision-made';
      readonly turn: number;
      readonly role: DecisionRole;
      readonly slot: string;
      readonly model: string;
      readonly probability: number;
      readonly candidates: readonly CandidateRecord[];
    }
  | { readonly type: 'turn-end'; readonly record: TurnRecord }
  | { readonly type: 'answer-delta'; readonly delta: ChatDelta };

/** What the first turn of a request would choose; nothing was called and nothing spent. */
export interface DecideReport {
  readonly policy: RunRecord['policy'];
  readonly decidedBy: string;
  readonly role: DecisionRole;
  readonly slot: string;
  readonly candidates: readonly CandidateRecord[];
  /** What the caller cares about, as it was read where it was said in words. */
  readonly weights: Weights;
  readonly limitsApplied: readonly LimitApplied[];
  readonly ruledOut: TurnRecord['ruledOut'];
  readonly warnings: readonly RunWarning[];
}

/** The loop, as the server sees it. */
export interface Orchestrator {
  /**
   * Runs to the end. When it fails after the start, the record is still returned, with `error` set.
   * @throws OrchestraError before the first event when no admissible slot can answer or the budget admits none.
   */
  run(spec: RunSpec): AsyncGenerator<RunEvent, RunRecord>;
  decide(spec: RunSpec): Promise<DecideReport>;
}
