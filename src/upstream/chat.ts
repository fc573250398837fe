import type { ChatMessage, TokenLogprob } from '../contract/chat.ts';
import type { Usage } from '../cost/usage.ts';
import type { CallTime } from './call-time.ts';

/** One call to a remote chat model, in our words; an adapter translates it to the upstream's dialect. */
export interface ChatRequest {
  /** The upstream's own name of the model. */
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  /** Always sent, reasoning included: it bounds the hold. */
  readonly maxOutputTokens: number;
  /** Further OpenAI fields that the adapter may forward: temperature, top_p, stop, seed, tools, response_format, … */
  readonly options: Readonly<Record<string, unknown>>;
}

export interface CallLimits {
  readonly signal: AbortSignal;
  readonly firstTokenTimeoutMs: number;
  readonly betweenTokensTimeoutMs: number;
  /** Told of every attempt. */
  readonly callTime?: CallTime | undefined;
}

export interface ToolCallDelta {
  readonly type: 'tool_call';
  readonly index: number;
  /** On the first delta of a call only. */
  readonly id?: string;
  readonly name?: string;
  readonly argumentsDelta: string;
}

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

export type ChatDelta =
  | { readonly type: 'text'; readonly text: string; readonly logprobs?: readonly TokenLogprob[] | undefined }
  | { readonly type: 'reasoning'; readonly text: string }
  | ToolCallDelta;

export interface ChatEnd {
  readonly type: 'end';
  readonly finishReason: FinishReason;
  /** Undefined when the upstream reported none. */
  readonly usage: Usage | undefined;
}

export type ChatEvent = ChatDelta | ChatEnd;

/**
 * A remote chat model server. Events come as they arrive and end with exactly one `end`.
 * @throws UpstreamFailure for everything that goes wrong, cancellation excepted (AbortError).
 */
export interface ChatUpstream {
  readonly name: string;
  /** True where a prompt is written to a cache, which may cost extra, only if the request marks it. */
  readonly cachesOnlyMarked?: boolean;
  complete(request: ChatRequest, limits: CallLimits): AsyncIterable<ChatEvent>;
}

export const failureKinds = [
  'rate_limited',
  'server_error',
  'unauthorized',
  'context_length_exceeded',
  'rejected',
  'schema_refused',
  'timeout',
  'connection',
  'cut_stream',
  'malformed',
] as const;
export type FailureKind = (typeof failureKinds)[number];

/** How a remote call failed, without host, key or body: its message is safe to show. */
export class UpstreamFailure extends Error {
  readonly kind: FailureKind;
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  /** Tokens that the upstream will bill although the call failed, where it said so. */
  readonly usage: Usage | undefined;
  /** Why a schema was refused, in words that may repeat it: for the client that sent it and nobody else. */
  readonly reason: string | undefined;

  constructor(
    kind: FailureKind,
    message: string,
    options: { status?: number; retryAfterMs?: number; usage?: Usage; reason?: string; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'UpstreamFailure';
    this.kind = kind;
    this.status = options.status;
    this.retryAfterMs = options.retryAfterMs;
    this.usage = options.usage;
    this.reason = options.reason;
  }
}
