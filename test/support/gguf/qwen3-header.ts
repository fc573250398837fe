import type { MetadataValue } from './container.ts';
import { endOfTurn, type Vocabulary } from './vocabulary.ts';

export interface Qwen3Shape {
  readonly name: string;
  /** `qwen3`, but for files that are meant to be broken. */
  readonly architecture: string;
  readonly contextTokens: number;
  readonly width: number;
  readonly layers: number;
  readonly heads: number;
  readonly cacheHeads: number;
  readonly headSize: number;
  readonly feedForwardSize: number;
  /** llama.cpp's number for the kind of weights: 0 for F32, 7 for Q8_0. */
  readonly fileType: number;
  readonly chatTemplate?: string | undefined;
}

// Messages between role markers, as ChatML has them.
const chatMl =
  "{%- for message in messages -%}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}" +
  "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}";

export function qwen3Header(vocabulary: Vocabulary, shape: Qwen3Shape): Map<string, MetadataValue> {
  const { architecture } = shape;
  const u32 = (value: number): MetadataValue => ({ type: 'u32', value });
  const f32 = (value: number): MetadataValue => ({ type: 'f32', value });
  const string = (value: string): MetadataValue => ({ type: 'string', value });
  return new Map<string, MetadataValue>([
    ['general.architecture', string(architecture)],
    ['general.type', string('model')],
    ['general.name', string(shape.name)],
    ['general.file_type', u32(shape.fileType)],
    ['general.quantization_version', u32(2)],
    [`${architecture}.context_length`, u32(shape.contextTokens)],
    [`${architecture}.embedding_length`, u32(shape.width)],
    [`${architecture}.block_count`, u32(shape.layers)],
    [`${architecture}.feed_forward_length`, u32(shape.feedForwardSize)],
    [`${architecture}.attention.head_count`, u32(shape.heads)],
    [`${architecture}.attention.head_count_kv`, u32(shape.cacheHeads)],
    [`${architecture}.attention.key_length`, u32(shape.headSize)],
    [`${architecture}.attention.value_length`, u32(shape.headSize)],
    [`${architecture}.rope.freq_base`, f32(10_000)],
    [`${architecture}.attention.layer_norm_rms_epsilon`, f32(1e-6)],
    ['tokenizer.ggml.model', string('gpt2')],
    ['tokenizer.ggml.pre', string('qwen2')],
    ['tokenizer.ggml.tokens', { type: 'strings', value: vocabulary.tokens }],
    ['tokenizer.ggml.token_type', { type: 'i32s', value: vocabulary.types }],
    ['tokenizer.ggml.merges', { type: 'strings', value: vocabulary.merges }],
    ['tokenizer.ggml.eos_token_id', u32(vocabulary.id(endOfTurn))],
    ['tokenizer.ggml.bos_token_id', u32(vocabulary.id('<|endoftext|>'))],
    ['tokenizer.ggml.padding_token_id', u32(vocabulary.id('<|endoftext|>'))],
    ['tokenizer.ggml.add_bos_token', { type: 'bool', value: false }],
    ['tokenizer.chat_template', string(shape.chatTemplate ?? chatMl)],
  ]);
}
