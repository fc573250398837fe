import type { Embedder } from '../../inference/embedder.ts';
import { EngineFailure } from '../../inference/engine.ts';
import { gistOf } from './gist.ts';
import { dot, type Heads, sigmoid, times } from './heads.ts';
import { comparison, type Needs, needsByCues, type ProblemReader, readByCues } from './problem-reading.ts';
import { bucketsOf } from './words.ts';

/** A domain of the heads that is less like every name than this is something else altogether. */
const leastLikeness = 0.35;
/** What a cue says where the head is unsure. */
const trustInCues = 0.5;

/** Reads problems by their sentence embedding; by words alone while the embedder cannot answer. */
export function createProblemReader(embedder: Embedder, heads: Heads): ProblemReader {
  const ofNames = new Map<string, Float32Array>();
  // One problem a run, asked about every turn: the vector lives as long as the run's signal does.
  const ofRuns = new WeakMap<AbortSignal, Promise<Float32Array>>();

  async function vectorOf(text: string, signal: AbortSignal): Promise<Float32Array> {
    const { vectors } = await embedder.embed({ texts: [text], use: 'query', longTexts: 'cut', signal });
    const [vector] = vectors;
    if (vector === undefined) throw new EngineFailure('crashed', 'the embedder gave no vector');
    return vector;
  }

  async function namesWithVectors(names: readonly string[], signal: AbortSignal) {
    for (const name of names) {
      const known = heads.domains.names.indexOf(name);
      if (!ofNames.has(name)) {
        ofNames.set(
          name,
          known < 0 ? await vectorOf(name, signal) : rowOf(heads.domains.descriptions, known, embedder),
        );
      }
    }
    return names.flatMap((name) => {
      const vector = ofNames.get(name);
      return vector ? [{ name, vector }] : [];
    });
  }

  return async (problem, names, signal) => {
    try {
      const gist = gistOf(problem);
      const vector = await (ofRuns.get(signal) ?? remember(ofRuns, signal, vectorOf(gist, signal)));
      const domains = domainsOf(gist, vector, await namesWithVectors(names, signal), heads);
      const { difficulty, coincidence } = heads;
      return {
        domains,
        shift: dot(vector, difficulty.weights) + difficulty.bias,
        levels: difficulty.levels,
        levelWeights: difficulty.levelWeights,
        needs: needsOf(problem, vector, heads),
        ...comparison(problem, coincidence),
      };
    } catch (error) {
      if (!(error instanceof EngineFailure)) throw error;
      ofRuns.delete(signal);
      return readByCues(problem, names, signal);
    }
  };
}

function remember<Value>(memory: WeakMap<AbortSignal, Promise<Value>>, signal: AbortSignal, value: Promise<Value>) {
  memory.set(signal, value);
  return value;
}

const rowOf = (matrix: Float32Array, row: number, { info }: Embedder): Float32Array =>
  matrix.subarray(row * info.dimensions, (row + 1) * info.dimensions);

interface NamedVector {
  readonly name: string;
  readonly vector: Float32Array;
}

/** A softmax over the names, trained ones by their head and new ones by likeness, and over what is like none of them. */
function domainsOf(
  gist: string,
  problem: Float32Array,
  names: readonly NamedVector[],
  { domains }: Heads,
): ReadonlyMap<string, number> {
  const ofWords = weighWords(gist, domains);
  const trained = times(domains.weights, problem).map(
    (value, index) => value + (ofWords[index] ?? 0) + (domains.bias[index] ?? 0),
  );
  const masses = new Map(
    names.map(({ name, vector }) => {
      const known = trained[domains.names.indexOf(name)];
      return [name, Math.exp(known ?? domains.zeroShot.scale * dot(problem, vector) + domains.zeroShot.bias)];
    }),
  );
  const likeness = names.map(({ vector }) => times(domains.descriptions, vector));
  const elsewhere = trained
    .filter((_, index) => likeness.every((values) => (values[index] ?? 0) < leastLikeness))
    .reduce((sum, value) => sum + Math.exp(value), 0);
  const total = [...masses.values()].reduce((sum, value) => sum + value, elsewhere);
  return new Map([...masses].map(([name, mass]) => [name, mass / total]));
}

/** What the words of a text say for and against each trained domain, in logits. */
function weighWords(text: string, { names, words: { buckets, weights, step } }: Heads['domains']): readonly number[] {
  const found = bucketsOf(text, buckets);
  const each = step / Math.sqrt(Math.max(1, found.length));
  return names.map((_, row) => each * found.reduce((sum, bucket) => sum + (weights[row * buckets + bucket] ?? 0), 0));
}

function needsOf(problem: string, vector: Float32Array, { needs }: Heads): Needs {
  const chances = times(needs.weights, vector).map((value, index) => sigmoid(value + (needs.bias[index] ?? 0)));
  const cues = needsByCues(problem);
  const chance = (name: keyof Needs) => Math.max(chances[needs.names.indexOf(name)] ?? 0, trustInCues * cues[name]);
  return { facts: chance('facts'), documents: chance('documents'), calculation: chance('calculation') };
}
