import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Listener, listenOnLoopback, type ReceivedRequest, sendJson } from './listener.ts';
import type { CompletionReply, OpenAiReply, WireUsage } from './openai-replies.ts';
import { sendRaw, streamFrames } from './stream.ts';

export type OpenAiScript = (request: ReceivedRequest) => OpenAiReply | Promise<OpenAiReply>;

export interface Billed {
  promptTokens: number;
  completionTokens: number;
}

export interface OpenAiServer extends Omit<Listener, 'origin'> {
  /** Base URL as clients write it: ends in `/v1`. */
  readonly url: string;
  /** Sum of the usage of every completion and embedding that it began, reported or not. */
  readonly billed: Readonly<Billed>;
}

const saysHello: OpenAiScript = () => ({ kind: 'completion', text: ['Hello', ' from', ' loopback.'] });

/** A server on 127.0.0.1 that speaks OpenAI's wire format and does what `script` says, request by request. */
export async function startOpenAiServer(script: OpenAiScript = saysHello): Promise<OpenAiServer> {
  const billed: Billed = { promptTokens: 0, completionTokens: 0 };
  const bill = (usage: WireUsage | undefined) => {
    billed.promptTokens += usage?.prompt_tokens ?? 0;
    billed.completionTokens += usage?.completion_tokens ?? 0;
  };
  const { origin, ...listener } = await listenOnLoopback(async (request, response) => {
    const path = request.path.replace(/^\/v1/, '');
    if (path === '/models') return sendJson(response, 200, modelList);
    const reply = await script(request);
    if (path === '/embeddings' && reply.kind === 'completion') return answerEmbeddings(request, response, bill);
    await send(reply, request, response, bill);
  });
  return { ...listener, url: `${origin}/v1`, billed };
}

const modelList = {
  object: 'list',
  data: [{ id: 'loopback', object: 'model', created: 1_700_000_000, owned_by: 'loopback' }],
};

type Bill = (usage: WireUsage | undefined) => void;

async function send(reply: OpenAiReply, request: ReceivedRequest, response: ServerResponse, bill: Bill): Promise<void> {
  if (reply.kind === 'silence') return;
  if (reply.kind === 'json') return sendJson(response, reply.status, reply.body, reply.headers);
  if (reply.kind === 'raw') return sendRaw(reply, request, response);
  bill(usageOf(reply, request));
  if (request.body['stream'] === true) await streamCompletion(reply, request, response);
  else await sendCompletion(reply, request, response);
}

function usageOf(reply: CompletionReply, request: ReceivedRequest): WireUsage {
  if (reply.usage) return reply.usage;
  const prompt_tokens = Math.ceil(JSON.stringify(request.body).length / 4);
  const completion_tokens = [reply.text, reply.reasoning, reply.toolCalls].reduce(
    (sum, chunks) => sum + (chunks?.length ?? 0),
    0,
  );
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

const finishReasonOf = (reply: CompletionReply): string =>
  reply.finishReason ?? (reply.toolCalls?.length ? 'tool_calls' : 'stop');

const wireCalls = (reply: CompletionReply) =>
  (reply.toolCalls ?? []).map(({ id, name, arguments: args }, index) => ({
    index,
    id,
    type: 'function',
    function: { name, arguments: args },
  }));

async function sendCompletion(reply: CompletionReply, request: ReceivedRequest, response: ServerResponse) {
  await sleep(reply.firstChunkDelayMs ?? 0);
  if (reply.hangAfterChunks !== undefined) return;
  if (reply.cutAfterChunks !== undefined) return request.cut();
  const calls = wireCalls(reply).map(({ index: _, ...call }) => call);
  const message = {
    role: 'assistant',
    content: reply.text?.join('') ?? null,
    ...(reply.reasoning ? { [reply.reasoningField ?? 'reasoning_content']: reply.reasoning.join('') } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
  sendJson(
    response,
    200,
    {
      ...envelope(request, 'chat.completion'),
      choices: [{ index: 0, message, logprobs: null, finish_reason: finishReasonOf(reply) }],
      ...(reply.usage === null ? {} : { usage: usageOf(reply, request) }),
    },
    reply.headers,
  );
}

const envelope = (request: ReceivedRequest, object: string) => ({
  id: `chatcmpl-loopback${String(request.attempt).padStart(16, '0')}`,
  object,
  created: 1_700_000_000,
  model: String(request.body['model'] ?? 'loopback'),
  system_fingerprint: 'fp_loopback',
});

/** The chunks of a stream in OpenAI's order: role, reasoning, text, calls, finish, usage. */
function chunksOf(reply: CompletionReply, request: ReceivedRequest): object[] {
  const usage = reply.usage === null ? undefined : usageOf(reply, request);
  const placement = reply.usagePlacement ?? 'own_chunk';
  const asked = (request.body['stream_options'] as { include_usage?: boolean } | undefined)?.include_usage === true;
  const reported = asked || placement !== 'own_chunk' ? usage : undefined;
  const base = envelope(request, 'chat.completion.chunk');
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    ...base,
    choices: [{ index: 0, delta, logprobs: null, finish_reason }],
    ...(reported && placement === 'every_chunk' ? { usage: reported } : {}),
    ...(reported && placement === 'finish_chunk' && finish_reason ? { usage: reported } : {}),
    ...(asked && placement === 'own_chunk' ? { usage: null } : {}),
  });
  return [
    chunk({ role: 'assistant', content: '' }),
    ...(reply.reasoning ?? []).map((text) => chunk({ [reply.reasoningField ?? 'reasoning_content']: text })),
    ...(reply.text ?? []).map((content) => chunk({ content })),
    ...wireCalls(reply)
      .flatMap(callDeltas)
      .map((call) => chunk({ tool_calls: [call] })),
    ...(reply.finish === false ? [] : [chunk({}, finishReasonOf(reply))]),
    ...(reported && placement === 'own_chunk' ? [{ ...base, choices: [], usage: reported }] : []),
  ];
}

/** Id and name first, then the arguments in two halves, as OpenAI streams them. */
function callDeltas({ function: { name, arguments: args }, ...call }: ReturnType<typeof wireCalls>[number]): object[] {
  const middle = Math.ceil(args.length / 2);
  const more = [args.slice(0, middle), args.slice(middle)].filter((half) => half !== '');
  return [
    { ...call, function: { name, arguments: '' } },
    ...more.map((half) => ({ index: call.index, function: { arguments: half } })),
  ];
}

async function streamCompletion(reply: CompletionReply, request: ReceivedRequest, response: ServerResponse) {
  const lineEnd = reply.lineEnd ?? '\n';
  const comment = reply.comments ? `: keep-alive${lineEnd}${lineEnd}` : '';
  const frame = (data: string) => `${comment}data: ${data}${lineEnd}${lineEnd}`;
  const data = chunksOf(reply, request).map((chunk) => JSON.stringify(chunk));
  if (reply.insert) data.splice(reply.insert.afterChunks, 0, reply.insert.data);
  if (reply.done !== false) data.push('[DONE]');
  await streamFrames(data.map(frame), reply, request, response);
}

function answerEmbeddings(request: ReceivedRequest, response: ServerResponse, bill: Bill): void {
  const input = request.body['input'];
  const texts = Array.isArray(input) ? input : [input];
  const usage = { prompt_tokens: texts.length * 3, total_tokens: texts.length * 3, completion_tokens: 0 };
  bill(usage);
  const base64 = request.body['encoding_format'] === 'base64';
  const data = texts.map((text, index) => {
    const vector = Float32Array.of(index, String(text).length, 0.5);
    const embedding = base64 ? Buffer.from(vector.buffer).toString('base64') : [...vector];
    return { object: 'embedding', index, embedding };
  });
  sendJson(response, 200, { object: 'list', model: String(request.body['model']), data, usage });
}
