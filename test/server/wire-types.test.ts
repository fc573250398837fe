import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionCreateParams,
} from 'openai/resources/chat/completions';
import { expect, expectTypeOf, test } from 'vitest';
import { type ChatRequest, parseChatRequest, type WireChunk, type WireCompletion } from '../../src/server/wire.ts';

test('what we send is what the official client expects', () => {
  expectTypeOf<WireCompletion>().toExtend<Omit<ChatCompletion, 'service_tier'>>();
  expectTypeOf<WireChunk>().toExtend<Pick<ChatCompletionChunk, 'id' | 'object' | 'created' | 'model' | 'choices'>>();
  expectTypeOf<{ readonly choices: 'none' }>().not.toExtend<Pick<ChatCompletionChunk, 'choices'>>();
});

test('what the official client can send is what we read', () => {
  expectTypeOf<Omit<ChatCompletionCreateParams, 'messages'>>().toExtend<Partial<Omit<ChatRequest, 'messages'>>>();
  const everything: ChatCompletionCreateParams = {
    model: 'orchestra',
    messages: [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'hi' }] },
    ],
    audio: null,
    frequency_penalty: -2,
    function_call: 'none',
    functions: [{ name: 'f' }],
    logit_bias: { foo: 0 },
    logprobs: true,
    max_completion_tokens: 1,
    max_tokens: 1,
    metadata: { foo: 'string' },
    modalities: ['text'],
    n: 1,
    parallel_tool_calls: true,
    prediction: { content: 'string', type: 'content' },
    presence_penalty: -2,
    prompt_cache_key: 'k',
    reasoning_effort: 'none',
    response_format: { type: 'text' },
    safety_identifier: 's',
    seed: -9007199254740991,
    service_tier: 'auto',
    stop: '\n',
    store: true,
    stream: false,
    stream_options: { include_obfuscation: true, include_usage: true },
    temperature: 1,
    tool_choice: 'none',
    tools: [{ function: { name: 'f' }, type: 'function' }],
    top_logprobs: 0,
    top_p: 1,
    user: 'u',
    verbosity: 'low',
    web_search_options: { search_context_size: 'low' },
  };
  expect(parseChatRequest(everything)).toMatchObject({ model: 'orchestra' });
});
