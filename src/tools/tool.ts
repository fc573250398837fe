import type { ChatMessage } from '../contract/chat.ts';
import type { Evidence, Observation } from '../contract/evidence.ts';
import type { MeteredUsage } from '../cost/usage.ts';
import type { PrivacyClass } from '../preferences/privacy.ts';
import type { Slot } from '../preferences/slot.ts';
import type { CallTime } from '../upstream/call-time.ts';
import type { ChatDelta, FinishReason } from '../upstream/chat.ts';

/** What a tool may look at while it works on one turn. It knows no prices and no preferences. */
export interface ToolInput {
  /** The last user message: what the run is about. */
  readonly problem: string;
  /** The client's messages, verbatim and whole. */
  readonly messages: readonly ChatMessage[];
  readonly evidence: Evidence;
  /** Least class that may see a byte of this run; a search slot passes sources below it over. */
  readonly privacy: PrivacyClass;
  /** Whether the caller's limits let a search slot ask the source of this name. */
  readonly admitsSource: (name: string) => boolean;
  /** Owner of a private run, whose traces in a model's cache nobody else may use. */
  readonly privateTo: string | undefined;
  /** Most tokens an expert may write; the hold was made for this. */
  readonly maxOutputTokens: number;
  /** OpenAI fields of the request that belong to the answer: temperature, stop, tools, response_format, … */
  readonly answerOptions: Readonly<Record<string, unknown>>;
  /** Runs while somebody else is at work for this call; at most until the deadline of the run. */
  readonly callTime: CallTime;
  /** Fires when the client leaves, the run is cancelled or its deadline passes. */
  readonly signal: AbortSignal;
}

export interface ToolOutcome {
  readonly observation: Observation;
  /** What was consumed, failed calls included, under the meters that bill it. */
  readonly usage: readonly MeteredUsage[];
  /** Of an answer only. */
  readonly finishReason?: FinishReason;
  /** Of an answer that is not in the form which the client asked for, but may be. */
  readonly missesFormat?: boolean;
  /** Of an answer whose schema was refused: why, in words that only the client may see. */
  readonly schemaReason?: string | undefined;
  /** Of an answer: the part of its input that the client itself sent, 0 to 1. The rest is what the run has learnt. */
  readonly ownShare?: number;
}

/**
 * What the policy can call. One object a slot. Failures are observations; only an AbortError of `input.signal`
 * is thrown.
 */
export interface Tool {
  readonly slot: Slot;
  /**
   * The most that `execute` with this input can consume, by meter; what the ledger holds before the call.
   * Input tokens are bounded by UTF-8 bytes, output by `maxOutputTokens`, time by `callTime`.
   */
  bound(input: ToolInput): readonly MeteredUsage[];
  /** Yields the answer as it is written (answer slots only) and returns what came of it. */
  execute(input: ToolInput): AsyncGenerator<ChatDelta, ToolOutcome>;
}
