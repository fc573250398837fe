import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodeGguf, type Tensor } from '../../test/support/gguf/container.ts';
import { type Qwen3Shape, qwen3Header } from '../../test/support/gguf/qwen3-header.ts';
import { buildVocabulary, type Vocabulary } from '../../test/support/gguf/vocabulary.ts';

/** Qwen3's vocabulary with a body small enough for a CPU: 281 million random weights in 302 MB of Q8_0. */
const shape: Qwen3Shape = {
  name: 'random model in the shape of Qwen3',
  architecture: 'qwen3',
  contextTokens: 16_384,
  width: 1_024,
  layers: 8,
  heads: 16,
  cacheHeads: 8,
  headSize: 128,
  feedForwardSize: 3_072,
  fileType: 7,
};
const vocabularySize = 151_936;
const blockValues = 32;
const blockBytes = 34;
/** Of the weights; the usual initialisation of language models. */
const deviation = 0.02;
/** Standard deviation of the signed bytes of a block. */
const byteDeviation = 74;

/** Written once: its texts mean nothing, its timings are those of a trained model. */
export function shapedModelPath(): string {
  const path = join(tmpdir(), 'orchestra-bench-qwen3-shaped.Q8_0.gguf');
  if (existsSync(path)) return path;
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, encodeGguf(qwen3Header(paddedVocabulary(), shape), [...tensors()]));
  renameSync(draft, path);
  return path;
}

/** No merge reaches the padding, so prompts are bytes and words; sampling and grammars see all of it. */
function paddedVocabulary(): Vocabulary {
  const base = buildVocabulary([' the', ' answer', ' search', ' good', ' of', ' and', 'user', 'assistant', 'system']);
  const padding = Array.from({ length: vocabularySize - base.tokens.length }, (_, index) => `Ġword${index}`);
  return { ...base, tokens: [...base.tokens, ...padding], types: [...base.types, ...padding.map(() => 1)] };
}

function* tensors(): Generator<Tensor> {
  const { width, heads, cacheHeads, headSize, feedForwardSize } = shape;
  const random = randomBytes();
  const matrix = (name: string, rows: number, columns: number): Tensor => ({
    name: `${name}.weight`,
    dimensions: [rows, columns],
    data: random(rows * columns),
  });
  const ones = (name: string, length: number): Tensor => ({
    name: `${name}.weight`,
    dimensions: [length],
    data: new Float32Array(length).fill(1),
  });
  yield matrix('token_embd', width, vocabularySize);
  yield ones('output_norm', width);
  for (let layer = 0; layer < shape.layers; layer++) {
    const block = `blk.${layer}`;
    yield ones(`${block}.attn_norm`, width);
    yield matrix(`${block}.attn_q`, width, heads * headSize);
    yield matrix(`${block}.attn_k`, width, cacheHeads * headSize);
    yield matrix(`${block}.attn_v`, width, cacheHeads * headSize);
    yield matrix(`${block}.attn_output`, heads * headSize, width);
    yield ones(`${block}.attn_q_norm`, headSize);
    yield ones(`${block}.attn_k_norm`, headSize);
    yield ones(`${block}.ffn_norm`, width);
    yield matrix(`${block}.ffn_gate`, width, feedForwardSize);
    yield matrix(`${block}.ffn_up`, width, feedForwardSize);
    yield matrix(`${block}.ffn_down`, feedForwardSize, width);
  }
}

/** Blocks of Q8_0: a 16-bit scale, then 32 signed bytes, the same on every machine. */
function randomBytes(): (values: number) => Uint8Array {
  let state = 20_261_130;
  const scale = halfPrecision(deviation / byteDeviation);
  return (values) => {
    const bytes = new Uint8Array((values / blockValues) * blockBytes);
    for (let at = 0; at < bytes.length; at++) {
      const place = at % blockBytes;
      if (place < 2) {
        bytes[at] = place === 0 ? scale & 0xff : scale >> 8;
        continue;
      }
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      bytes[at] = state >>> 24;
    }
    return bytes;
  };
}

/** Bits of a positive normal number that fits. */
function halfPrecision(value: number): number {
  const exponent = Math.floor(Math.log2(value));
  const fraction = Math.round((value / 2 ** exponent - 1) * 1_024);
  return ((exponent + 15) << 10) + fraction;
}
