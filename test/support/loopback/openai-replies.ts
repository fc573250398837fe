import type { JsonReply, RawReply, StreamShape } from './stream.ts';

/** OpenAI's usage object as it stands on the wire. */
export interface WireUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens?: number;
  readonly prompt_tokens_details?: Readonly<Record<string, number>>;
  readonly completion_tokens_details?: Readonly<Record<string, number>>;
}

export interface WireToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** A chat completion and the ways in which its stream can be unusual. Everything left out is well-behaved. */
export interface CompletionReply extends StreamShape {
  readonly kind: 'completion';
  /** One content chunk each; joined when the client does not stream. */
  readonly text?: readonly string[];
  readonly reasoning?: readonly string[];
  readonly reasoningField?: 'reasoning_content' | 'reasoning';
  readonly toolCalls?: readonly WireToolCall[];
  readonly finishReason?: string;
  /** `null`: the upstream reports none. Left out: a quarter of the request's bytes in, one token a chunk out. */
  readonly usage?: WireUsage | null;
  /** Where a stream says it: in a chunk of its own, on the finish chunk, or growing on every chunk. */
  readonly usagePlacement?: 'own_chunk' | 'finish_chunk' | 'every_chunk';
  readonly lineEnd?: '\n' | '\r\n';
  /** Writes `: keep-alive` before every chunk. */
  readonly comments?: boolean;
  /** False leaves `data: [DONE]` out. */
  readonly done?: boolean;
  /** False leaves the finish chunk out. */
  readonly finish?: boolean;
  /** Puts this text as one more `data:` line after so many chunks. */
  readonly insert?: { readonly afterChunks: number; readonly data: string };
}

export type OpenAiReply =
  | CompletionReply
  | JsonReply
  | RawReply
  /** Accepts the request and never answers. */
  | { readonly kind: 'silence' };

const errorReply = (
  status: number,
  error: { message: string; type: string; code: string | null; param?: string },
  headers: Readonly<Record<string, string>> = {},
): OpenAiReply => ({ kind: 'json', status, headers, body: { error: { param: null, ...error } } });

/** Ready-made replies; `replies.says('hi')` is the plain case. */
export const replies = {
  says: (...text: string[]): CompletionReply => ({ kind: 'completion', text }),
  calls: (...toolCalls: WireToolCall[]): CompletionReply => ({ kind: 'completion', toolCalls }),
  silence: { kind: 'silence' } satisfies OpenAiReply,
  silenceAfterHeaders: { kind: 'completion', hangAfterChunks: 0 } satisfies CompletionReply,
  rateLimited: (headers: Readonly<Record<string, string>> = { 'retry-after': '1' }): OpenAiReply =>
    errorReply(429, { message: 'Rate limit reached.', type: 'rate_limit_error', code: 'rate_limit_exceeded' }, headers),
  quotaExhausted: errorReply(429, {
    message: 'You exceeded your current quota.',
    type: 'insufficient_quota',
    code: 'insufficient_quota',
  }),
  serverError: (status = 500): OpenAiReply =>
    errorReply(status, { message: 'The server had an error.', type: 'server_error', code: null }),
  /** Quotes the key and the host as real upstreams do, so that tests can prove they go no further. */
  badKey: (key = 'sk-loopback'): OpenAiReply =>
    errorReply(401, {
      message: `Incorrect API key provided: ${key}. You can find it at http://127.0.0.1/keys.`,
      type: 'invalid_request_error',
      code: 'invalid_api_key',
    }),
  contextTooLong: errorReply(400, {
    message: "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    type: 'invalid_request_error',
    code: 'context_length_exceeded',
    param: 'messages',
  }),
  invalid: (message = 'Invalid value for temperature.', param = 'temperature'): OpenAiReply =>
    errorReply(400, { message, type: 'invalid_request_error', code: 'invalid_value', param }),
} as const;
