import type { TokenLogprob } from '../../src/contract/chat.ts';
import type {
  EngineOptions,
  GenerateEvent,
  GenerateRequest,
  InferenceEngine,
  ToolCallPiece,
} from '../../src/inference/engine.ts';
import { type TinyAdapterOptions, type TinyModelOptions, tinyAdapter, tinyModel } from '../support/gguf/tiny-model.ts';

const words = ['the', 'answer', 'search', ' good', ' enough', 'user', 'assistant', 'system', ' y'];

/** Every chat prompt ends with a line break, so that is where a script begins. */
export const story = (): Buffer =>
  tinyModel({
    words,
    script: {
      '\n': 'the',
      the: ' good',
      ' good': { ' enough': 13, '<|im_end|>': 12 },
      ' enough': '</think>',
      ':': { a: 2, b: 1, ' good': 1 },
      '<tool_call>': { a: 5, b: 1 },
      '<|im_end|>': { a: 5, b: 1 },
      '>': { a: 1, b: 5 },
      '?': { a: 1, '<|im_end|>': 3 },
      '#': { a: -40, b: -41, c: 40 },
      '%': { a: -90, b: -91, c: 90 },
    },
  });

/** For `story`: after a colon it prefers `b`. */
export const prefersB = (changes: Partial<TinyAdapterOptions> = {}): Buffer =>
  tinyAdapter({ words, after: ':', next: 'b', logit: 4, ...changes });

/** Likes `a` a little better than `b`, and both better than anything else. */
export const wavering = (): Buffer => {
  const likings = { a: 2, b: 1.2 };
  return tinyModel({ words, script: { '\n': likings, a: likings, b: likings } });
};

/** Says `x y😀` for ever, the emoji in four byte tokens. */
export const endless = (): Buffer =>
  tinyModel({
    words,
    script: {
      '\n': 'x',
      x: ' y',
      ' y': '<0xF0>',
      '<0xF0>': '<0x9F>',
      '<0x9F>': '<0x98>',
      '<0x98>': '<0x80>',
      '<0x80>': 'x',
    },
  });

/** What it says depends on all it has read: a wrong cache shows. */
export const attentive = (changes: Partial<TinyModelOptions> = {}): Buffer =>
  tinyModel({ words, attentive: true, ...changes });

/** As Qwen models have it, in short: tools first, calls and their results between the messages. */
const toolTemplate = `{%- if tools -%}{{ '<|im_start|>system\\n<tools>' }}{%- for tool in tools -%}{{ '\\n' + (tool | tojson) }}{%- endfor -%}{{ '\\n</tools> <tool_call></tool_call><|im_end|>\\n' }}{%- endif -%}
{%- for message in messages -%}{{ '<|im_start|>' + message.role + '\\n' + message.content }}
{%- for call in message.tool_calls or [] -%}{{ '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}{%- endfor -%}
{{ '<|im_end|>\\n' }}{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}`;

/** Says `the good` and calls something, once or more often. */
export const caller = (tag: 'token' | 'text' = 'token'): Buffer =>
  tinyModel({
    words: [...words, '<tool', '_call'],
    chatTemplate: toolTemplate,
    script: {
      '\n': 'the',
      the: ' good',
      ' good': tag === 'token' ? '<tool_call>' : '<tool',
      '<tool': '_call',
      _call: '>',
      // The end tag, which a grammar may have it spell.
      '</tool_call>': { '<tool_call>': 30, '<|im_end|>': 30 },
      '>': { '<tool_call>': 30, '<|im_end|>': 30 },
    },
  });

export const templateless = (): Buffer => tinyModel({ words, chatTemplate: '{% for %}' });

export const engineOptions = (modelPath: string, changes: Partial<EngineOptions> = {}): EngineOptions => ({
  modelPath,
  device: 'cpu',
  threads: 1,
  contextTokens: 2_048,
  sequences: 1,
  prefillChunkTokens: 32,
  ...changes,
});

export const generateRequest = (changes: Partial<GenerateRequest> = {}): GenerateRequest => ({
  messages: [{ role: 'user', content: 'hi' }],
  maxTokens: 30,
  temperature: 0,
  topP: 1,
  stop: [],
  seed: 1,
  signal: new AbortController().signal,
  ...changes,
});

export interface Generated {
  readonly text: string;
  readonly pieces: readonly string[];
  readonly logprobs: readonly TokenLogprob[];
  readonly callPieces: readonly ToolCallPiece[];
  readonly end: Extract<GenerateEvent, { type: 'end' }>;
}

export async function generated(engine: InferenceEngine, request: GenerateRequest): Promise<Generated> {
  const pieces: string[] = [];
  const logprobs: TokenLogprob[] = [];
  const callPieces: ToolCallPiece[] = [];
  for await (const event of engine.generate(request)) {
    if (event.type === 'end') return { text: pieces.join(''), pieces, logprobs, callPieces, end: event };
    if (event.type === 'tool_call') callPieces.push(event);
    else {
      pieces.push(event.text);
      logprobs.push(...(event.logprobs ?? []));
    }
  }
  throw new Error('the stream ended without an end event');
}
