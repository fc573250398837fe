import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodeGguf, type MetadataValue, type Tensor } from './container.ts';
import { type Qwen3Shape, qwen3Header } from './qwen3-header.ts';
import { buildVocabulary, endOfTurn, type Vocabulary } from './vocabulary.ts';

/** What follows a token: one token for certain, or several with logits. Readable texts of single tokens, or `<0xF0>`. */
export type Script = Readonly<Record<string, string | Readonly<Record<string, number>>>>;

export interface TinyModelOptions {
  /** Each becomes one token. */
  readonly words?: readonly string[];
  readonly script?: Script;
  /** A random attention layer instead of the script: what was said long ago matters, so that a wrong cache shows. */
  readonly attentive?: boolean;
  readonly trainedContextTokens?: number;
  readonly architecture?: string;
  readonly chatTemplate?: string;
  /** Makes it a reranker: a text that ends with this word is right, any other is not. */
  readonly rightEnd?: string;
  /** What it says it was trained with. */
  readonly contract?: string;
}

/** Logit of a scripted certainty; others stay at 0, so chance is below 1e-10. */
const certainLogit = 30;
/** Standard deviation of the logits of an attentive model. */
const attentiveLogitSpread = 3;
const headSize = 32;
const headCount = 2;
const feedForwardSize = 64;

/** A qwen3 model of about a megabyte whose next token depends on the last one as the script says. */
export function tinyModel(options: TinyModelOptions = {}): Buffer {
  const vocabulary = buildVocabulary(options.words ?? []);
  const width = widthOf(vocabulary);
  const header = qwen3Header(vocabulary, shape(width, options));
  if (options.contract !== undefined) header.set('orchestra.contract', { type: 'string', value: options.contract });
  const tensors = [
    oneHotEmbedding(vocabulary, width),
    ones('output_norm.weight', width),
    outputWeights(vocabulary, width, options),
    ...layer(width, options.attentive ?? false),
  ];
  if (options.rightEnd === undefined) return encodeGguf(header, tensors);
  // Pooling of kind 4 is ranking, by the first label.
  header.set('qwen3.pooling_type', { type: 'u32', value: 4 });
  header.set('qwen3.classifier.output_labels', { type: 'strings', value: ['yes', 'no'] });
  header.set('tokenizer.chat_template.rerank', { type: 'string', value: '{query}:{document}' });
  const labels = new Float32Array(2 * width);
  labels[vocabulary.id(options.rightEnd)] = 4 / Math.sqrt(width);
  return encodeGguf(header, [...tensors, { name: 'cls.output.weight', dimensions: [width, 2], data: labels }]);
}

export interface TinyAdapterOptions extends Pick<TinyModelOptions, 'words' | 'architecture' | 'contract'> {
  /** Behind which token, which one gains how much logit. */
  readonly after: string;
  readonly next: string;
  readonly logit: number;
  /** Not the model's: no base fits it then. */
  readonly width?: number;
}

/** A LoRA of rank 1 for the output weights of a scripted model with the same words. */
export function tinyAdapter(options: TinyAdapterOptions): Buffer {
  const vocabulary = buildVocabulary(options.words ?? []);
  const width = options.width ?? widthOf(vocabulary);
  const before = new Float32Array(width);
  before[vocabulary.id(options.after)] = 1 / Math.sqrt(width);
  const gains = new Float32Array(vocabulary.tokens.length);
  gains[vocabulary.id(options.next)] = options.logit;
  const string = (value: string): MetadataValue => ({ type: 'string', value });
  const metadata = new Map<string, MetadataValue>([
    ['general.architecture', string(options.architecture ?? 'qwen3')],
    ['general.type', string('adapter')],
    ['adapter.type', string('lora')],
    ['adapter.lora.alpha', { type: 'f32', value: 1 }],
  ]);
  if (options.contract !== undefined) metadata.set('orchestra.contract', string(options.contract));
  return encodeGguf(metadata, [
    { name: 'output.weight.lora_a', dimensions: [width, 1], data: before },
    { name: 'output.weight.lora_b', dimensions: [1, vocabulary.tokens.length], data: gains },
  ]);
}

const widthOf = ({ tokens }: Vocabulary): number => Math.ceil(tokens.length / 32) * 32;

/** Writes the bytes to a folder of their own; `remove` deletes it. */
export function writeModel(bytes: Buffer): { readonly path: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'orchestra-gguf-'));
  const path = join(folder, 'model.gguf');
  writeFileSync(path, bytes);
  return { path, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

const shape = (width: number, options: TinyModelOptions): Qwen3Shape => ({
  name: 'tiny test model',
  architecture: options.architecture ?? 'qwen3',
  contextTokens: options.trainedContextTokens ?? 16_384,
  width,
  layers: 1,
  heads: headCount,
  cacheHeads: headCount,
  headSize,
  feedForwardSize,
  fileType: 0,
  chatTemplate: options.chatTemplate,
});

function oneHotEmbedding(vocabulary: Vocabulary, width: number): Tensor {
  const data = new Float32Array(width * vocabulary.tokens.length);
  vocabulary.tokens.forEach((_, token) => {
    data[token * width + token] = 1;
  });
  return { name: 'token_embd.weight', dimensions: [width, vocabulary.tokens.length], data };
}

function outputWeights(vocabulary: Vocabulary, width: number, options: TinyModelOptions): Tensor {
  const data = new Float32Array(width * vocabulary.tokens.length);
  if (options.attentive)
    for (const token of vocabulary.tokens.keys()) data[token * width + token] = attentiveLogitSpread;
  else writeScript(data, vocabulary, width, options);
  return { name: 'output.weight', dimensions: [width, vocabulary.tokens.length], data };
}

/** The final norm makes a one-hot vector `sqrt(width)` long, which the weights take back. */
function writeScript(data: Float32Array, vocabulary: Vocabulary, width: number, options: TinyModelOptions): void {
  const put = (after: number, next: number, logit: number) => {
    data[next * width + after] = logit / Math.sqrt(width);
  };
  const scripted = new Set(Object.keys(options.script ?? {}).map(vocabulary.id));
  vocabulary.tokens.forEach((_, token) => {
    if (!scripted.has(token)) put(token, vocabulary.id(endOfTurn), certainLogit);
  });
  for (const [after, next] of Object.entries(options.script ?? {})) {
    const logits = typeof next === 'string' ? { [next]: certainLogit } : next;
    for (const [text, logit] of Object.entries(logits)) put(vocabulary.id(after), vocabulary.id(text), logit);
  }
}

function layer(width: number, attentive: boolean): Tensor[] {
  const random = pseudoRandom(20_261_130);
  const matrix = (name: string, rows: number, columns: number): Tensor => {
    const data = new Float32Array(rows * columns);
    if (attentive) for (let i = 0; i < data.length; i++) data[i] = random() - 0.5;
    return { name: `blk.0.${name}.weight`, dimensions: [rows, columns], data };
  };
  const attentionWidth = headCount * headSize;
  return [
    ones('blk.0.attn_norm.weight', width),
    matrix('attn_q', width, attentionWidth),
    matrix('attn_k', width, attentionWidth),
    matrix('attn_v', width, attentionWidth),
    matrix('attn_output', attentionWidth, width),
    ones('blk.0.attn_q_norm.weight', headSize),
    ones('blk.0.attn_k_norm.weight', headSize),
    ones('blk.0.ffn_norm.weight', width),
    matrix('ffn_gate', width, feedForwardSize),
    matrix('ffn_up', width, feedForwardSize),
    matrix('ffn_down', feedForwardSize, width),
  ];
}

const ones = (name: string, length: number): Tensor => ({
  name,
  dimensions: [length],
  data: new Float32Array(length).fill(1),
});

/** A small linear congruential generator: the same weights on every machine. */
function pseudoRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
