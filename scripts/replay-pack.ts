import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, inflateRawSync } from 'node:zlib';
import { z } from 'zod';

/** Recorded outcomes of real models on real questions (their README says how they were made), read where they lie. */
export interface ReplayPack {
  readonly items: readonly ReplayItem[];
  /** Of the default roster, in the order of the outcomes' columns. */
  readonly models: readonly ReplayModel[];
  outcome(item: number, model: number): ReplayOutcome;
}

export interface ReplayItem {
  readonly id: string;
  readonly domain: string;
  readonly prompt: string;
  readonly promptTokens: number;
  /** With the worked examples of the recording, which are not in the prompt. */
  readonly sentTokens: number;
  readonly split: string;
}

export interface ReplayModel {
  readonly anonymousId: string;
  readonly usdPerMillion: { readonly input: number; readonly output: number };
  /** Measured on calibration items. */
  readonly skills: Readonly<Record<string, number>>;
  readonly meanOutputTokens: number;
}

export interface ReplayOutcome {
  readonly right: boolean;
  readonly outputTokens: number;
  /** Equal numbers are equal answers; undefined where there is none or none was recorded. */
  readonly answerClass: number | undefined;
}

const itemSchema = z.object({
  id: z.string(),
  domain: z.string(),
  prompt: z.string(),
  prompt_tokens: z.number(),
  input_tokens_sent: z.number(),
});
const modelsSchema = z.object({
  assumed_output_tokens: z.number().nullish(),
  models: z.array(
    z.object({
      index: z.int(),
      anon_id: z.string(),
      default_roster: z.boolean(),
      price: z.object({ input: z.number(), output: z.number() }),
    }),
  ),
});
const cardSchema = z.object({
  anon_id: z.string(),
  by_domain: z.record(z.string(), z.object({ accuracy: z.number() })),
  mean_output_tokens: z.number().nullish(),
});
const cardsSchema = z.object({ cards: z.record(z.string(), z.array(cardSchema)) });
const splitsSchema = z.object({ items: z.record(z.string(), z.record(z.string(), z.array(z.string()))) });

export function readReplayPack(folder: string, pack: string): ReplayPack {
  const json = (...path: string[]): unknown => JSON.parse(readFileSync(join(folder, ...path), 'utf8'));
  const { models, assumed_output_tokens } = modelsSchema.parse(json(pack, 'models.json'));
  const cards = cardsSchema.parse(json('cards.json')).cards[pack] ?? [];
  const splits = Object.entries(splitsSchema.parse(json('splits.json')).items[pack] ?? {});
  const splitOf = new Map(splits.flatMap(([split, ids]) => ids.map((id) => [id, split] as const)));
  const roster = models.filter(({ default_roster }) => default_roster);
  const arrays = readNpz(join(folder, pack, 'outcomes.npz'));
  const at = (name: string, item: number, model: number): number | undefined =>
    arrays.get(name)?.[item * models.length + (roster[model]?.index ?? 0)];
  return {
    items: gunzipSync(readFileSync(join(folder, pack, 'items.jsonl.gz')))
      .toString('utf8')
      .trimEnd()
      .split('\n')
      .map((line) => itemSchema.parse(JSON.parse(line)))
      .map((item) => ({
        id: item.id,
        domain: item.domain,
        prompt: item.prompt,
        promptTokens: item.prompt_tokens,
        sentTokens: item.input_tokens_sent,
        split: splitOf.get(item.id) ?? 'none',
      })),
    models: roster.map(({ anon_id, price }) => {
      const card = cards.find((one) => one.anon_id === anon_id);
      return {
        anonymousId: anon_id,
        usdPerMillion: price,
        skills: Object.fromEntries(
          Object.entries(card?.by_domain ?? {}).map(([domain, { accuracy }]) => [domain, accuracy]),
        ),
        meanOutputTokens: Math.round(card?.mean_output_tokens ?? assumed_output_tokens ?? 400),
      };
    }),
    outcome(item, model) {
      const recordedTokens = at('out_tokens', item, model) ?? -1;
      const answerClass = at('answer_class', item, model) ?? -1;
      return {
        right: at('correct', item, model) === 1,
        outputTokens: recordedTokens >= 0 ? recordedTokens : (assumed_output_tokens ?? 0),
        answerClass: answerClass >= 0 ? answerClass : undefined,
      };
    },
  };
}

type NumberArray = Int8Array | Int16Array | Int32Array;

// PKWARE APPNOTE 4.3.12 (directory entry) and 4.3.7 (local header): offsets of the fields that are read.
const entrySignature = 0x02014b50;

/** The arrays of a NumPy archive, row by row. */
function readNpz(path: string): ReadonlyMap<string, NumberArray> {
  const bytes = readFileSync(path);
  const arrays = new Map<string, NumberArray>();
  for (let at = bytes.readUInt32LE(bytes.length - 6); bytes.readUInt32LE(at) === entrySignature; ) {
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((offset) => bytes.readUInt16LE(at + offset));
    const name = bytes.toString('utf8', at + 46, at + 46 + (nameLength ?? 0));
    const header = bytes.readUInt32LE(at + 42);
    const start = header + 30 + bytes.readUInt16LE(header + 26) + bytes.readUInt16LE(header + 28);
    const data = bytes.subarray(start, start + bytes.readUInt32LE(at + 20));
    const deflated = bytes.readUInt16LE(at + 10) !== 0;
    arrays.set(name.replace(/\.npy$/, ''), readNpy(deflated ? inflateRawSync(data) : data));
    at += 46 + (nameLength ?? 0) + (extraLength ?? 0) + (commentLength ?? 0);
  }
  return arrays;
}

function readNpy(bytes: Buffer): NumberArray {
  const headerLength = bytes.readUInt16LE(8);
  const header = bytes.toString('latin1', 10, 10 + headerLength);
  const data = Uint8Array.from(bytes.subarray(10 + headerLength)).buffer;
  if (header.includes("'fortran_order': True")) throw new Error('columns first is not read here');
  if (header.includes("'|i1'")) return new Int8Array(data);
  if (header.includes("'<i2'")) return new Int16Array(data);
  if (header.includes("'<i4'")) return new Int32Array(data);
  throw new Error(`an array of another type: ${header}`);
}

/** Best on the train split. */
export const strongest = (pack: ReplayPack): number => {
  const rows = pack.items.flatMap(({ split }, row) => (split === 'train' ? [row] : []));
  const accuracies = pack.models.map((_, model) => accuracyOf(pack, rows, model));
  return accuracies.indexOf(Math.max(...accuracies));
};

export const accuracyOf = (pack: ReplayPack, rows: readonly number[], model: number): number =>
  rows.filter((row) => pack.outcome(row, model).right).length / rows.length;

/** USD a request. */
export function costOf(pack: ReplayPack, rows: readonly number[], model: number): number {
  const { input, output } = pack.models[model]?.usdPerMillion ?? { input: 0, output: 0 };
  const usd = rows.map((row) => {
    const sent = pack.items[row]?.sentTokens ?? 0;
    return (input * sent + output * pack.outcome(row, model).outputTokens) / 1e6;
  });
  return usd.reduce((sum, value) => sum + value, 0) / rows.length;
}
