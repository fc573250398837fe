import { z } from 'zod';
import { chatMessage } from '../contract/chat.ts';
import { OrchestraError } from '../errors.ts';
import { preferencesSchema } from '../preferences/schema.ts';

/**
 * What clients send. Every object is open (unknown keys are none of our business), null equals absent, and
 * enumerations that OpenAI extends every few months are plain strings.
 */

/** More than any model writes, and little enough that its price is a number. */
const mostTokens = 2 ** 31 - 1;
const tokenCap = z.int().min(1).max(mostTokens).nullish();
const answerCount = z.int().min(1).max(128).nullish();

/** All that a relay looks at: the rest of the body is the upstream's to judge. */
export const relayRequest = z.looseObject({
  model: z.string().min(1),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  max_tokens: tokenCap,
  max_completion_tokens: tokenCap,
  n: answerCount,
  best_of: answerCount,
  metadata: z.looseObject({}).nullish(),
  service_tier: z.string().nullish(),
});
export type RelayRequest = z.infer<typeof relayRequest>;

const clientTool = z.looseObject({
  type: z.string().default('function'),
  function: z.looseObject({ name: z.string().min(1) }).optional(),
});

const legacyFunction = z.looseObject({ name: z.string().min(1) });

const toolChoice = z.union([z.string(), z.looseObject({ type: z.string() })]);

export const chatRequest = relayRequest.extend({
  messages: z.array(chatMessage).min(1),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  presence_penalty: z.number().nullish(),
  frequency_penalty: z.number().nullish(),
  logit_bias: z.looseObject({}).nullish(),
  seed: z.int().nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).nullish(),
  tools: z.array(clientTool).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  functions: z.array(legacyFunction).nullish(),
  function_call: z.union([z.string(), legacyFunction]).nullish(),
  response_format: z
    .looseObject({
      type: z.string(),
      json_schema: z
        .looseObject({ name: z.string(), schema: z.looseObject({}).nullish(), strict: z.boolean().nullish() })
        .nullish(),
    })
    .nullish(),
  reasoning_effort: z.string().nullish(),
  verbosity: z.string().nullish(),
  modalities: z.array(z.string()).nullish(),
  preferences: preferencesSchema.nullish(),
});
export type ChatRequest = z.infer<typeof chatRequest>;

/** `preferences` is checked elsewhere, with better words. */
const chatBody = chatRequest.omit({ preferences: true });

export const parseRelayRequest = (body: unknown): RelayRequest => parse(relayRequest, body);
export const parseChatRequest = (body: unknown): ChatRequest => parse(chatBody, body);

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const param = issue?.path.join('.') ?? '';
  if (param === '') throw new OrchestraError('invalid_request', 'The body must be a JSON object.');
  throw new OrchestraError('invalid_request', `${param}: ${issue?.message ?? 'is not valid'}.`, { param });
}

export interface WireToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

export type WireFinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'function_call';

export interface WireUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
  readonly completion_tokens_details: { readonly reasoning_tokens: number };
  /** US dollars; left out when a price is unknown. */
  readonly cost?: number;
  readonly cost_details?: Readonly<Record<string, number>>;
}

/** OpenAI's way to cite a web page; clients refuse the whole answer when one of the four is missing. */
export interface WireCitation {
  readonly type: 'url_citation';
  readonly url_citation: {
    readonly url: string;
    readonly title: string;
    readonly start_index: number;
    readonly end_index: number;
  };
}

export interface WireMessage {
  readonly role: 'assistant';
  readonly content: string | null;
  readonly refusal: null;
  readonly reasoning_content?: string;
  readonly reasoning?: string;
  readonly annotations?: WireCitation[];
  readonly tool_calls?: WireToolCall[];
  readonly function_call?: { readonly name: string; readonly arguments: string };
}

export interface WireCompletion {
  readonly id: string;
  readonly object: 'chat.completion';
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
  readonly service_tier: null;
  readonly choices: {
    readonly index: 0;
    readonly message: WireMessage;
    readonly logprobs: null;
    readonly finish_reason: WireFinishReason;
  }[];
  readonly usage: WireUsage;
  /** The client's own, as OpenAI keeps it with stored answers. */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly x_orchestra?: Readonly<Record<string, unknown>>;
}

export interface WireDelta {
  readonly role?: 'assistant';
  readonly content?: string;
  readonly reasoning_content?: string;
  readonly reasoning?: string;
  readonly annotations?: WireCitation[];
  readonly tool_calls?: {
    readonly index: number;
    readonly id?: string;
    readonly type?: 'function';
    readonly function: { readonly name?: string; readonly arguments: string };
  }[];
  readonly function_call?: { readonly name?: string; readonly arguments: string };
}

export interface WireChunk {
  readonly id: string;
  readonly object: 'chat.completion.chunk';
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
  readonly choices: {
    readonly index: 0;
    readonly delta: WireDelta;
    readonly finish_reason: WireFinishReason | null;
    readonly logprobs: null;
  }[];
  readonly usage?: WireUsage | null;
  readonly x_orchestra?: Readonly<Record<string, unknown>>;
}
