import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { chatMessage, type TokenLogprob } from '../contract/chat.ts';
import { outputTokensOf, promptTokensOf, type Usage, usageOf } from '../cost/usage.ts';
import type { Embedder } from '../inference/embedder.ts';
import { type ChatDelta, type ChatEnd, type ChatEvent, UpstreamFailure } from '../upstream/chat.ts';
import type { Relay, RelayRequest, RelayResponse } from '../upstream/relay.ts';
import { asksForUsage, type JsonObject } from '../upstream/relay-request.ts';
import type { RelayEvent } from '../upstream/relay-stream.ts';
import type { Expert } from './expert.ts';
import { embedLocally } from './local-embedding.ts';
import { rejection } from './local-rejection.ts';

interface WritingModel {
  readonly kind: 'chat';
  readonly expert: Expert;
  /** Where the client sets no limit. */
  readonly maxOutputTokens: number;
}

export type LocalModel = WritingModel | { readonly kind: 'embedding'; readonly embedder: Embedder };

/** Models of this gateway without the loop, as if they were an upstream's: what they write becomes OpenAI's objects. */
export function createLocalRelay(name: string, models: ReadonlyMap<string, LocalModel>): Relay {
  async function forward(relayed: RelayRequest): Promise<RelayResponse> {
    const local = models.get(relayed.model);
    if (!local) throw new UpstreamFailure('server_error', 'The local model is not available.');
    const path = local.kind === 'chat' ? '/chat/completions' : '/embeddings';
    if (relayed.path !== path) {
      return rejection(new UpstreamFailure('rejected', `\`${name}/${relayed.model}\` serves /v1${path} only.`));
    }
    if (local.kind === 'embedding') return embedLocally(local.embedder, `${name}/${relayed.model}`, relayed);
    return write(local, relayed);
  }

  async function write(local: WritingModel, relayed: RelayRequest): Promise<RelayResponse> {
    const problem = problemOf(relayed);
    if (problem !== undefined) return rejection(new UpstreamFailure('rejected', problem));
    const events = local.expert.complete(expertRequest(relayed, local))[Symbol.asyncIterator]();
    const identity = {
      id: `chatcmpl-${randomUUID()}`,
      created: Math.floor(Date.now() / 1000),
      model: `${name}/${relayed.model}`,
    };
    try {
      // What the engine refuses it refuses at once, and then the answer still has a status.
      const first = await events.next();
      const all = prepend(first, events);
      if (relayed.body['stream'] !== true) return await wholeAnswer(all, identity);
      return { kind: 'stream', headers: {}, events: streamed(all, identity, asksForUsage(relayed.body)) };
    } catch (thrown) {
      const isMistake =
        thrown instanceof UpstreamFailure &&
        ['rejected', 'context_length_exceeded', 'schema_refused'].includes(thrown.kind);
      if (isMistake) return rejection(thrown);
      throw thrown;
    }
  }
  return { name, forward };
}

interface Identity {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

const chatBody = z.looseObject({
  messages: z.array(chatMessage).min(1),
  max_completion_tokens: z.int().positive().nullish(),
  max_tokens: z.int().positive().nullish(),
  n: z.literal(1).nullish(),
});

function problemOf({ body }: RelayRequest): string | undefined {
  const issue = chatBody.safeParse(body).error?.issues[0];
  return issue && `${issue.path.join('.')}: ${issue.message}.`;
}

function expertRequest({ body, privateTo, callTime, signal }: RelayRequest, { maxOutputTokens: most }: WritingModel) {
  const { messages, max_completion_tokens, max_tokens } = chatBody.parse(body);
  const maxOutputTokens = max_completion_tokens ?? max_tokens ?? most;
  return { messages, maxOutputTokens, options: body, privateTo, callTime, signal };
}

async function* prepend(first: IteratorResult<ChatEvent>, rest: AsyncIterator<ChatEvent>): AsyncGenerator<ChatEvent> {
  try {
    for (let next = first; !next.done; next = await rest.next()) yield next.value;
  } finally {
    await rest.return?.();
  }
}

async function wholeAnswer(events: AsyncIterable<ChatEvent>, identity: Identity): Promise<RelayResponse> {
  let content = '';
  const calls: { id: string; type: 'function'; function: { name: string; arguments: string } }[] = [];
  const logprobs: TokenLogprob[] = [];
  let isAsked = false;
  for await (const event of events) {
    if (event.type === 'end') {
      const message = { role: 'assistant', content: content || null, ...(calls.length > 0 && { tool_calls: calls }) };
      const tokens = isAsked ? { content: logprobs, refusal: null } : null;
      const choice = { index: 0, message, logprobs: tokens, finish_reason: event.finishReason };
      const body = { ...identity, object: 'chat.completion', choices: [choice], usage: wireUsage(event) };
      return { kind: 'answer', headers: {}, body, usage: event.usage };
    }
    if (event.type === 'text') {
      content += event.text;
      isAsked ||= event.logprobs !== undefined;
      logprobs.push(...(event.logprobs ?? []));
    } else if (event.type === 'tool_call') {
      const { index, id = '', name = '', argumentsDelta } = event;
      calls[index] ??= { id, type: 'function', function: { name, arguments: '' } };
      calls[index].function.arguments += argumentsDelta;
    }
  }
  throw new UpstreamFailure('cut_stream', 'The local model stopped without an end.');
}

async function* streamed(
  events: AsyncIterable<ChatEvent>,
  identity: Identity,
  wasAskedFor: boolean,
): AsyncGenerator<RelayEvent, void> {
  const chunk = (delta: object, logprobs: object | null, finish_reason: string | null): JsonObject => ({
    ...identity,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, logprobs, finish_reason }],
  });
  const frames = (value: JsonObject): RelayEvent => ({
    type: 'frames',
    bytes: Buffer.from(`data: ${JSON.stringify(value)}\n\n`),
  });
  yield frames(chunk({ role: 'assistant', content: '' }, null, null));
  for await (const event of events) {
    if (event.type !== 'end') {
      const tokens = event.type === 'text' && event.logprobs ? { content: event.logprobs, refusal: null } : null;
      yield frames(chunk(wireDelta(event), tokens, null));
      continue;
    }
    yield { type: 'finish', chunk: chunk({}, null, event.finishReason) };
    const { usage = usageOf({ calls: 1 }) } = event;
    const last = { ...identity, object: 'chat.completion.chunk', choices: [], usage: wireUsage(event) };
    yield { type: 'usage', chunk: last, usage, wasAskedFor };
  }
}

function wireDelta(delta: ChatDelta): object {
  if (delta.type === 'text') return { content: delta.text };
  if (delta.type === 'reasoning') return { reasoning_content: delta.text };
  const { index, id, name, argumentsDelta } = delta;
  const called = { ...(name !== undefined && { name }), arguments: argumentsDelta };
  return { tool_calls: [{ index, ...(id !== undefined && { id, type: 'function' }), function: called }] };
}

function wireUsage({ usage = usageOf({}) }: { readonly usage: Usage | undefined } & ChatEnd) {
  const [prompt_tokens, completion_tokens] = [promptTokensOf(usage), outputTokensOf(usage)];
  const prompt_tokens_details = { cached_tokens: usage.cacheReadTokens };
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens, prompt_tokens_details };
}
