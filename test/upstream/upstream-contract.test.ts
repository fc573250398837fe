import { describe } from 'vitest';
import { createAnthropicUpstream } from '../../src/upstream/anthropic.ts';
import { createOpenAiUpstream } from '../../src/upstream/openai.ts';
import { createResponsesUpstream } from '../../src/upstream/responses.ts';
import { anthropicError, startAnthropicServer } from '../support/loopback/anthropic-server.ts';
import { startOpenAiServer } from '../support/loopback/openai-server.ts';
import { startResponsesServer } from '../support/loopback/responses-server.ts';
import type { JsonReply, StreamShape } from '../support/loopback/stream.ts';
import { holdsTheUpstreamContract, type Refusal, type Reply, type Subject } from './upstream-contract.ts';

type Answer = Extract<Reply, { kind: 'answer' }>;

/** Where the stream breaks, when so many events come before the first piece of text. */
function shapeOf({ bytesPerWrite, chunkDelayMs, cutAfterText, hangAfterText }: Answer, before: number): StreamShape {
  return {
    ...(bytesPerWrite === undefined ? {} : { bytesPerWrite }),
    ...(chunkDelayMs === undefined ? {} : { chunkDelayMs }),
    ...(cutAfterText === undefined ? {} : { cutAfterChunks: before + cutAfterText }),
    ...(hangAfterText === undefined ? {} : { hangAfterChunks: before + hangAfterText }),
  };
}

const said = ({ reasoning, text, toolCalls }: Answer) => ({
  ...(reasoning ? { text, reasoning } : {}),
  ...(text ? { text } : {}),
  ...(toolCalls ? { toolCalls } : {}),
});

interface Refused {
  readonly status: number;
  readonly type: string;
  readonly code: string | null;
  readonly message: string;
}

const openAiRefusals: Record<Refusal, Refused> = {
  rate_limited: { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', message: 'Slow down.' },
  server_error: { status: 500, type: 'server_error', code: null, message: 'Oops.' },
  unauthorized: { status: 401, type: 'invalid_request_error', code: 'invalid_api_key', message: 'Incorrect key.' },
  context_length_exceeded: {
    status: 400,
    type: 'invalid_request_error',
    code: 'context_length_exceeded',
    message: 'Too long.',
  },
  rejected: { status: 400, type: 'invalid_request_error', code: 'invalid_value', message: 'No.' },
};

const retryAfter = (refusal: Refusal) => (refusal === 'rate_limited' ? { 'retry-after': '3' } : {});

function openAiRefusal({ refusal, quoting = '' }: Extract<Reply, { kind: 'refusal' }>): JsonReply {
  const { status, message, ...error } = openAiRefusals[refusal];
  const body = { error: { ...error, param: null, message: `${message} ${quoting}` } };
  return { kind: 'json', status, headers: retryAfter(refusal), body };
}

const openAi: Subject = {
  name: 'openai',
  knowsUsageOfCutAnswers: false,
  usage: {
    billed: { inputTokens: 40, cacheReadTokens: 60, outputTokens: 10, reasoningTokens: 20 },
    reported: { inputTokens: 40, cacheReadTokens: 60, outputTokens: 10, reasoningTokens: 20 },
  },
  start: async (reply, apiKey) => {
    const server = await startOpenAiServer(({ attempt }) => {
      const wanted = reply(attempt);
      if (wanted.kind === 'refusal') return openAiRefusal(wanted);
      if (wanted.kind !== 'answer') return wanted;
      const { usage, errorAfterText: failure } = wanted;
      return {
        kind: 'completion',
        ...shapeOf(wanted, 1),
        ...said(wanted),
        ...(wanted.limited ? { finishReason: 'length' } : {}),
        ...(wanted.keepAlive ? { comments: true } : {}),
        ...(failure
          ? {
              insert: {
                afterChunks: 1 + failure.pieces,
                data: JSON.stringify({ error: { ...openAiRefusals[failure.error], status: undefined } }),
              },
            }
          : {}),
        ...(usage
          ? {
              usage: {
                prompt_tokens: (usage.inputTokens ?? 0) + (usage.cacheReadTokens ?? 0),
                completion_tokens: (usage.outputTokens ?? 0) + (usage.reasoningTokens ?? 0),
                prompt_tokens_details: { cached_tokens: usage.cacheReadTokens ?? 0 },
                completion_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
              },
            }
          : {}),
      };
    });
    return { server, upstream: createOpenAiUpstream({ name: 'loop', baseUrl: server.url, apiKey }) };
  },
};

const responses: Subject = {
  name: 'responses',
  knowsUsageOfCutAnswers: false,
  usage: openAi.usage,
  start: async (reply, apiKey) => {
    const server = await startResponsesServer(({ attempt }) => {
      const wanted = reply(attempt);
      if (wanted.kind === 'refusal') return openAiRefusal(wanted);
      if (wanted.kind !== 'answer') return wanted;
      const { usage, errorAfterText: failure } = wanted;
      return {
        kind: 'response',
        ...shapeOf(wanted, 4),
        ...said(wanted),
        ...(wanted.limited ? { incomplete: 'max_output_tokens' as const } : {}),
        ...(failure
          ? {
              insert: {
                afterChunks: 4 + failure.pieces,
                event: { ...openAiRefusals[failure.error], status: undefined, type: 'error' },
              },
            }
          : {}),
        ...(usage
          ? {
              usage: {
                input_tokens: (usage.inputTokens ?? 0) + (usage.cacheReadTokens ?? 0),
                output_tokens: (usage.outputTokens ?? 0) + (usage.reasoningTokens ?? 0),
                input_tokens_details: { cached_tokens: usage.cacheReadTokens ?? 0 },
                output_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
              },
            }
          : {}),
      };
    });
    return { server, upstream: createResponsesUpstream({ name: 'loop', baseUrl: server.url, apiKey }) };
  },
};

const anthropicRefusals: Record<Refusal, readonly [number, string, string]> = {
  rate_limited: [429, 'rate_limit_error', 'Slow down.'],
  server_error: [500, 'api_error', 'Oops.'],
  unauthorized: [401, 'authentication_error', 'invalid x-api-key'],
  context_length_exceeded: [400, 'invalid_request_error', 'prompt is too long: 205000 tokens > 200000 maximum'],
  rejected: [400, 'invalid_request_error', 'No.'],
};

const anthropic: Subject = {
  name: 'anthropic',
  // The input is counted in the first event.
  knowsUsageOfCutAnswers: true,
  usage: {
    billed: { inputTokens: 40, cacheReadTokens: 60, cacheWriteTokens: 7, outputTokens: 30 },
    // Thinking is inside the output.
    reported: { inputTokens: 40, cacheReadTokens: 60, cacheWriteTokens: 7, outputTokens: 30 },
  },
  start: async (reply, apiKey) => {
    const server = await startAnthropicServer(({ attempt }) => {
      const wanted = reply(attempt);
      if (wanted.kind === 'refusal') {
        const [status, type, message] = anthropicRefusals[wanted.refusal];
        return anthropicError(status, type, `${message} ${wanted.quoting ?? ''}`, retryAfter(wanted.refusal));
      }
      if (wanted.kind !== 'answer') return wanted;
      const { usage, errorAfterText: failure, reasoning } = wanted;
      const [, type, message] = anthropicRefusals[failure?.error ?? 'server_error'];
      return {
        kind: 'message',
        ...shapeOf(wanted, 2),
        ...(wanted.text ? { text: wanted.text } : {}),
        ...(wanted.toolCalls ? { toolCalls: wanted.toolCalls } : {}),
        ...(reasoning ? { thinking: reasoning } : {}),
        ...(wanted.limited ? { stopReason: 'max_tokens' } : {}),
        ...(wanted.keepAlive ? { pings: true } : {}),
        ...(failure
          ? { insert: { afterChunks: 2 + failure.pieces, event: { type: 'error', error: { type, message } } } }
          : {}),
        ...(usage
          ? {
              usage: {
                input_tokens: usage.inputTokens ?? 0,
                cache_read_input_tokens: usage.cacheReadTokens ?? 0,
                cache_creation_input_tokens: usage.cacheWriteTokens ?? 0,
                output_tokens: usage.outputTokens ?? 0,
              },
            }
          : {}),
      };
    });
    return { server, upstream: createAnthropicUpstream({ name: 'loop', baseUrl: server.url, apiKey }) };
  },
};

describe.each([openAi, responses, anthropic])('the upstream for $name', (subject) => holdsTheUpstreamContract(subject));
