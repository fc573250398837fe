import { type Listener, listenOnLoopback, type ReceivedRequest, sendJson } from './listener.ts';
import type { WireToolCall } from './openai-replies.ts';
import { type JsonReply, type RawReply, type StreamShape, sendRaw, streamFrames } from './stream.ts';

/** Anthropic's usage object as it stands on the wire; the counts are disjoint. */
export interface AnthropicUsage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_read_input_tokens?: number;
  readonly cache_creation_input_tokens?: number;
  readonly cache_creation?: {
    readonly ephemeral_5m_input_tokens: number;
    readonly ephemeral_1h_input_tokens: number;
  };
}

/** One message and the ways in which its stream can be unusual. */
export interface MessageReply extends StreamShape {
  readonly kind: 'message';
  readonly thinking?: readonly string[];
  readonly text?: readonly string[];
  readonly toolCalls?: readonly WireToolCall[];
  readonly stopReason?: string;
  /** Left out: a quarter of the request's bytes in, one token a piece out. */
  readonly usage?: AnthropicUsage;
  /** Writes a `ping` before every event. */
  readonly pings?: boolean;
  /** Puts this event in after so many events. */
  readonly insert?: { readonly afterChunks: number; readonly event: { readonly type: string } };
}

export type AnthropicReply = MessageReply | JsonReply | RawReply | { readonly kind: 'silence' };
export type AnthropicScript = (request: ReceivedRequest) => AnthropicReply | Promise<AnthropicReply>;

export interface AnthropicServer extends Omit<Listener, 'origin'> {
  /** Base URL as configurations write it, without `/v1`. */
  readonly url: string;
  /** Sums over every message that it began, reported or not. */
  readonly billed: { inputTokens: number; cacheReadTokens: number; cacheWriteTokens: number; outputTokens: number };
}

/** A server on 127.0.0.1 that speaks Anthropic's `POST /v1/messages` and does what `script` says. */
export async function startAnthropicServer(script: AnthropicScript): Promise<AnthropicServer> {
  const billed = { inputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, outputTokens: 0 };
  const { origin, ...listener } = await listenOnLoopback(async (request, response) => {
    if (request.method !== 'POST' || request.path !== '/v1/messages') {
      return sendJson(response, 404, anthropicError(404, 'not_found_error', 'Not found.').body);
    }
    const refusal = objectionTo(request);
    const reply = refusal ?? (await script(request));
    if (reply.kind === 'silence') return;
    if (reply.kind === 'json') return sendJson(response, reply.status, reply.body, reply.headers);
    if (reply.kind === 'raw') return sendRaw(reply, request, response);
    const usage = usageOf(reply, request);
    billed.inputTokens += usage.input_tokens;
    billed.cacheReadTokens += usage.cache_read_input_tokens ?? 0;
    billed.cacheWriteTokens += usage.cache_creation_input_tokens ?? 0;
    billed.outputTokens += usage.output_tokens;
    const events: { readonly type: string }[] = [...eventsOf(reply, usage, request)];
    if (reply.insert) events.splice(reply.insert.afterChunks, 0, reply.insert.event);
    const ping = reply.pings ? frame({ type: 'ping' }) : '';
    await streamFrames(
      events.map((event) => ping + frame(event)),
      reply,
      request,
      response,
    );
  });
  return { ...listener, url: origin, billed };
}

const frame = (event: { readonly type: string }): string => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

export const anthropicError = (
  status: number,
  type: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): JsonReply => ({ kind: 'json', status, headers, body: { type: 'error', error: { type, message } } });

/** What the real API refuses about the shape of a request, as far as clients get it wrong. */
function objectionTo({ headers, body }: ReceivedRequest): JsonReply | undefined {
  const refuse = (message: string) => anthropicError(400, 'invalid_request_error', message);
  if (headers['anthropic-version'] === undefined) return refuse('anthropic-version: header is required');
  if (typeof body['max_tokens'] !== 'number') return refuse('max_tokens: Field required');
  const turns = body['messages'] as { role: string; content: { type: string; text?: string }[] }[]; // Tests send these.
  if (turns[0]?.role !== 'user') return refuse('messages: first message must use the "user" role');
  const blocks = turns.flatMap(({ content }) => content);
  if (blocks.some(({ type, text }) => type === 'text' && !text?.trim())) {
    return refuse('messages: text content blocks must be non-empty');
  }
  if (blocks.some(({ type }) => type === 'tool_use') && body['tools'] === undefined) {
    return refuse('tools: Field required where tool_use blocks are');
  }
  return undefined;
}

function usageOf(reply: MessageReply, request: ReceivedRequest): AnthropicUsage {
  if (reply.usage) return reply.usage;
  const pieces = [reply.thinking, reply.text, reply.toolCalls];
  return {
    input_tokens: Math.ceil(JSON.stringify(request.body).length / 4),
    output_tokens: pieces.reduce((sum, list) => sum + (list?.length ?? 0), 0),
  };
}

/** Events in Anthropic's order: start, one block each for thinking, text and every call, delta with the totals, stop. */
function* eventsOf(reply: MessageReply, usage: AnthropicUsage, request: ReceivedRequest) {
  const base = {
    id: `msg_loopback${request.attempt}`,
    type: 'message',
    role: 'assistant',
    model: request.body['model'],
  };
  const message = {
    ...base,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { ...usage, output_tokens: 1 },
  };
  yield { type: 'message_start', message };
  let index = 0;
  if (reply.thinking) {
    yield* block(index, { type: 'thinking', thinking: '', signature: '' }, [
      ...reply.thinking.map((thinking) => ({ type: 'thinking_delta', thinking })),
      { type: 'signature_delta', signature: 'c2lnbmVk' },
    ]);
    index += 1;
  }
  if (reply.text) {
    yield* block(
      index,
      { type: 'text', text: '' },
      reply.text.map((text) => ({ type: 'text_delta', text })),
    );
    index += 1;
  }
  for (const call of reply.toolCalls ?? []) {
    const middle = Math.ceil(call.arguments.length / 2);
    const halves = ['', call.arguments.slice(0, middle), call.arguments.slice(middle)];
    const content = { type: 'tool_use', id: call.id, name: call.name, input: {} };
    yield* block(
      index,
      content,
      halves.map((partial_json) => ({ type: 'input_json_delta', partial_json })),
    );
    index += 1;
  }
  const stop_reason = reply.stopReason ?? (reply.toolCalls?.length ? 'tool_use' : 'end_turn');
  yield {
    type: 'message_delta',
    delta: { stop_reason, stop_sequence: null },
    usage: { output_tokens: usage.output_tokens },
  };
  yield { type: 'message_stop' };
}

function* block(index: number, content_block: object, deltas: readonly object[]) {
  yield { type: 'content_block_start', index, content_block };
  for (const delta of deltas) yield { type: 'content_block_delta', index, delta };
  yield { type: 'content_block_stop', index };
}
