import { type Listener, listenOnLoopback, type ReceivedRequest, sendJson } from './listener.ts';
import type { WireToolCall } from './openai-replies.ts';
import { type JsonReply, type RawReply, type StreamShape, sendRaw, streamFrames } from './stream.ts';

/** The Responses API's usage object: cached input is inside the input, reasoning inside the output. */
export interface ResponsesUsage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_tokens?: number;
  readonly input_tokens_details?: { readonly cached_tokens: number };
  readonly output_tokens_details?: { readonly reasoning_tokens: number };
}

/** One response and the ways in which its stream can be unusual. */
export interface ResponseReply extends StreamShape {
  readonly kind: 'response';
  readonly reasoning?: readonly string[];
  readonly text?: readonly string[];
  readonly toolCalls?: readonly WireToolCall[];
  /** Why it is incomplete; left out: it is complete. */
  readonly incomplete?: 'max_output_tokens' | 'content_filter';
  /** It fails at its end. */
  readonly error?: { readonly code: string; readonly message: string };
  /** Left out: a quarter of the request's bytes in, one token a piece out. */
  readonly usage?: ResponsesUsage;
  /** False: items come whole, without deltas. */
  readonly deltas?: boolean;
  /** Puts this event in after so many events. */
  readonly insert?: { readonly afterChunks: number; readonly event: { readonly type: string } };
}

export type ResponsesReply = ResponseReply | JsonReply | RawReply | { readonly kind: 'silence' };
export type ResponsesScript = (request: ReceivedRequest) => ResponsesReply | Promise<ResponsesReply>;

export interface ResponsesServer extends Omit<Listener, 'origin'> {
  /** Base URL as clients write it: ends in `/v1`. */
  readonly url: string;
  /** Sums over every response that it began, reported or not. */
  readonly billed: { inputTokens: number; outputTokens: number };
}

/** A server on 127.0.0.1 that speaks OpenAI's `POST /v1/responses` and does what `script` says. */
export async function startResponsesServer(script: ResponsesScript): Promise<ResponsesServer> {
  const billed = { inputTokens: 0, outputTokens: 0 };
  const { origin, ...listener } = await listenOnLoopback(async (request, response) => {
    if (request.method !== 'POST' || request.path !== '/v1/responses') {
      return sendJson(response, 404, { error: { message: 'Not found.', type: 'invalid_request_error', code: null } });
    }
    const reply = await script(request);
    if (reply.kind === 'silence') return;
    if (reply.kind === 'json') return sendJson(response, reply.status, reply.body, reply.headers);
    if (reply.kind === 'raw') return sendRaw(reply, request, response);
    const usage = usageOf(reply, request);
    billed.inputTokens += usage.input_tokens;
    billed.outputTokens += usage.output_tokens;
    const body = bodyOf(reply, usage, request);
    if (request.body['stream'] !== true) return sendJson(response, 200, body, reply.headers);
    const events: { readonly type: string }[] = [...eventsOf(reply, body)];
    if (reply.insert) events.splice(reply.insert.afterChunks, 0, reply.insert.event);
    await streamFrames(events.map(frame), reply, request, response);
  });
  return { ...listener, url: `${origin}/v1`, billed };
}

const frame = (event: { readonly type: string }, sequence_number: number): string =>
  `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`;

function usageOf(reply: ResponseReply, request: ReceivedRequest): ResponsesUsage {
  if (reply.usage) return reply.usage;
  const pieces = [reply.reasoning, reply.text, reply.toolCalls];
  return {
    input_tokens: Math.ceil(JSON.stringify(request.body).length / 4),
    output_tokens: pieces.reduce((sum, list) => sum + (list?.length ?? 0), 0),
  };
}

function bodyOf(reply: ResponseReply, usage: ResponsesUsage, request: ReceivedRequest) {
  const status = reply.error ? 'failed' : reply.incomplete ? 'incomplete' : 'completed';
  return {
    id: `resp_loopback${request.attempt}`,
    object: 'response',
    status,
    model: String(request.body['model']),
    output: itemsOf(reply),
    error: reply.error ?? null,
    incomplete_details: reply.incomplete ? { reason: reply.incomplete } : null,
    usage,
  };
}

function itemsOf(reply: ResponseReply) {
  return [
    ...(reply.reasoning
      ? [
          {
            id: 'rs_1',
            type: 'reasoning',
            summary: [{ type: 'summary_text', text: reply.reasoning.join('') }],
          } as const,
        ]
      : []),
    ...(reply.text
      ? [
          {
            id: 'msg_1',
            type: 'message',
            role: 'assistant',
            content: [{ type: 'output_text', text: reply.text.join(''), annotations: [] }],
          } as const,
        ]
      : []),
    ...(reply.toolCalls ?? []).map(
      (call, index) =>
        ({
          id: `fc_${index}`,
          type: 'function_call',
          call_id: call.id,
          name: call.name,
          arguments: call.arguments,
        }) as const,
    ),
  ];
}

type Item = ReturnType<typeof itemsOf>[number];

/** Events in OpenAI's order: created, in progress, each item from added to done, the end with the whole response. */
function* eventsOf(reply: ResponseReply, body: ReturnType<typeof bodyOf>) {
  const begun = { ...body, status: 'in_progress', output: [], usage: null };
  yield { type: 'response.created', response: begun };
  yield { type: 'response.in_progress', response: begun };
  for (const [output_index, item] of body.output.entries()) {
    const place = { output_index, item_id: item.id };
    if (reply.deltas !== false) {
      yield { type: 'response.output_item.added', output_index, item: emptied(item) };
      yield* deltasOf(item, reply).map((event) => ({ ...place, ...event }));
    }
    yield { type: 'response.output_item.done', output_index, item };
  }
  yield { type: `response.${body.status}`, response: body };
}

function emptied(item: Item): object {
  if (item.type === 'function_call') return { ...item, arguments: '' };
  return item.type === 'message' ? { ...item, content: [] } : { ...item, summary: [] };
}

function deltasOf(item: Item, reply: ResponseReply) {
  const event = (type: string, delta: string) => ({ type, delta });
  if (item.type === 'reasoning') {
    const summary = {
      type: 'response.reasoning_summary_part.added',
      summary_index: 0,
      part: { type: 'summary_text', text: '' },
    };
    const pieces = (reply.reasoning ?? []).map((text) => event('response.reasoning_summary_text.delta', text));
    return [summary, ...pieces.map((piece) => ({ ...piece, summary_index: 0 }))];
  }
  if (item.type === 'message') {
    const part = (text: string) => ({ content_index: 0, part: { type: 'output_text', text, annotations: [] } });
    const whole = item.content[0].text;
    return [
      { type: 'response.content_part.added', ...part('') },
      ...(reply.text ?? []).map((text) => ({ content_index: 0, ...event('response.output_text.delta', text) })),
      { type: 'response.output_text.done', content_index: 0, text: whole },
      { type: 'response.content_part.done', ...part(whole) },
    ];
  }
  const middle = Math.ceil(item.arguments.length / 2);
  return [
    event('response.function_call_arguments.delta', item.arguments.slice(0, middle)),
    event('response.function_call_arguments.delta', item.arguments.slice(middle)),
    { type: 'response.function_call_arguments.done', arguments: item.arguments },
  ];
}
