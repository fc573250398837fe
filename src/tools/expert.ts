import type { ChatMessage } from '../contract/chat.ts';
import type { CallTime } from '../upstream/call-time.ts';
import type { ChatEvent } from '../upstream/chat.ts';

export interface ExpertRequest {
  readonly messages: readonly ChatMessage[];
  readonly maxOutputTokens: number;
  /** OpenAI fields that belong to the answer: temperature, stop, tools, … An expert ignores what it cannot do. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Owner of a private run, whose traces in a model's cache nobody else may use. */
  readonly privateTo?: string | undefined;
  /** Runs while the model is at work. */
  readonly callTime?: CallTime | undefined;
  readonly signal: AbortSignal;
}

/**
 * The chat model behind a slot, wherever it runs. Events come as they are written and end with exactly one `end`.
 * @throws UpstreamFailure for everything that goes wrong, cancellation excepted (AbortError).
 */
export interface Expert {
  /** True where a prompt is written to a cache, which may cost extra, only if the request marks it. */
  readonly cachesOnlyMarked?: boolean;
  complete(request: ExpertRequest): AsyncIterable<ChatEvent>;
}
