import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** Beside the sources and beside the build alike. */
const headsFile = fileURLToPath(new URL('../../../models/estimate-heads.json', import.meta.url));

/** 32-bit floats, little endian, row by row. */
const packed = z.base64().transform((text) => {
  const bytes = Buffer.from(text, 'base64');
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
});
/** Signed bytes, row by row. */
const packedBytes = z.base64().transform((text) => new Int8Array(Buffer.from(text, 'base64')));
const numbers = z.array(z.number());
const names = z.array(z.string());

const headsSchema = z.object({
  version: z.literal(2),
  provenance: z.object({ madeBy: z.string(), trainedOn: z.string(), seed: z.int() }),
  /** Of the weights whose vectors these heads read. */
  embeddingSha256: z.string(),
  domains: z.object({
    names,
    weights: packed,
    /** What the words of a problem add: a row a domain, `step` times a byte for each bucket. */
    words: z.object({ buckets: z.int().positive(), weights: packedBytes, step: z.number() }),
    bias: numbers,
    /** Vectors of what each domain is about. */
    descriptions: packed,
    /** Makes the similarity of a problem and a name comparable with the logits of trained domains. */
    zeroShot: z.object({ scale: z.number(), bias: z.number() }),
  }),
  difficulty: z.object({
    weights: packed,
    bias: z.number(),
    /** Log-odds that the text does not show, with their chances. */
    levels: numbers,
    levelWeights: numbers,
  }),
  needs: z.object({ names, weights: packed, bias: numbers }),
  /** Chance that two wrong answers are equal, to questions with options and to open ones. */
  coincidence: z.object({ options: z.number(), open: z.number() }),
});

/** What `orchestra-train heads` wrote: small linear readings of a sentence embedding. */
export type Heads = z.infer<typeof headsSchema>;

/** Reads and checks the heads. Call it once, at start: it touches the disk. */
export const readHeads = (file: string = headsFile): Heads => headsSchema.parse(JSON.parse(readFileSync(file, 'utf8')));

export const dot = (left: Float32Array, right: Float32Array): number =>
  left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);

/** One value a row of a packed matrix. */
export const times = (matrix: Float32Array, vector: Float32Array): number[] =>
  Array.from({ length: matrix.length / vector.length }, (_, row) =>
    dot(vector, matrix.subarray(row * vector.length, (row + 1) * vector.length)),
  );

export const sigmoid = (logit: number): number => 1 / (1 + Math.exp(-logit));
export const logit = (chance: number): number => Math.log(chance / (1 - chance));
