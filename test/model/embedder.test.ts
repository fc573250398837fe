import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findModel } from '../../src/inference/downloads/catalog.ts';
import type { Embedder, Ranker, TextUse } from '../../src/inference/embedder.ts';
import { embedHostSettings, startEmbedder } from '../../src/inference/start-embedder.ts';
import { tinyModel, writeModel } from '../support/gguf/tiny-model.ts';
import { commandLine, eventually } from './host-processes.ts';

interface GoldenCase {
  readonly input: string;
  /** Signed bytes in base64: the reference's vector, scaled so that its largest value is 127. */
  readonly expected: string;
}

const golden: readonly GoldenCase[] = JSON.parse(readFileSync('test/golden/embedding.json', 'utf8'));
const never = new AbortController().signal;
const { path: modelPath } = await findModel('all-minilm-l6-v2', '/nowhere');
const options = { modelPath, threads: 1, mostTokens: 256 };

async function vectorsOf(embedder: Embedder, texts: readonly string[], signal = never) {
  return (await embedder.embed({ texts, longTexts: 'cut', signal })).vectors;
}

function cosine(left: ArrayLike<number>, right: ArrayLike<number>): number {
  const dot = (a: ArrayLike<number>, b: ArrayLike<number>) =>
    Array.from(a).reduce((sum, value, index) => sum + value * (b[index] ?? Number.NaN), 0);
  return dot(left, right) / Math.sqrt(dot(left, left) * dot(right, right));
}

function childrenWith(words: string): number[] {
  const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8').trim().split(' ');
  return children.map(Number).filter((id) => id > 0 && commandLine(id).includes(words));
}

function onlyEmbedHost(): number {
  const [id, ...others] = childrenWith('embed-host');
  if (id === undefined || others.length > 0) throw new Error('there should be exactly one host');
  return id;
}

/** Gets ready, and fails all it is asked. */
const failingHost = `
  const socket = new (require('node:net').Socket)({ fd: 3, readable: true, writable: true });
  const say = (message) => {
    const body = Buffer.from(JSON.stringify([message]));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(body.length);
    socket.write(Buffer.concat([length, body]));
  };
  const info = { architecture: 'bert', device: 'cpu', contextTokens: 1, takesTools: false, weightsHash: '' };
  socket.once('data', () => {
    say({ type: 'ready', info });
    socket.on('data', () => say({ type: 'failed', id: 1, failure: { kind: 'crashed', message: 'cannot embed' } }));
  });
  socket.on('close', () => process.exit());
`;

describe('the bundled embedding', () => {
  let embedder: Embedder & Ranker;
  beforeAll(async () => {
    embedder = await startEmbedder(options);
  });
  afterAll(() => embedder.close());

  test('gives the vectors of the reference for 50 texts in many scripts', async () => {
    const vectors = await vectorsOf(
      embedder,
      golden.map(({ input }) => input),
    );
    expect(vectors).toHaveLength(50);
    const cosines = golden.map(({ expected }, index) =>
      cosine(vectors[index] ?? [], new Int8Array(Buffer.from(expected, 'base64'))),
    );
    // Eight bits cost a greeting of one or two words the most: there is nothing to average over.
    expect(Math.min(...cosines)).toBeGreaterThanOrEqual(0.998);
    expect(cosines.filter((value) => value >= 0.999).length).toBeGreaterThanOrEqual(47);
  });

  test('gives unit vectors, for empty text and for a book too', async () => {
    const { vectors, cutTexts } = await embedder.embed({
      texts: ['', 'word '.repeat(100_000)],
      longTexts: 'cut',
      signal: never,
    });
    expect(embedder.info.dimensions).toBe(384);
    expect(cutTexts).toBe(1);
    for (const vector of vectors) expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
  });

  test('ranks texts by how near they are to a query', async () => {
    const texts = ['Bread is baked in an oven.', 'Paris is the capital of France.', 'The French capital has cafés.'];
    const scores = await embedder.rank('What is the capital of France?', texts, never);
    expect(scores.every((score) => score >= -1 && score <= 1)).toBe(true);
    expect(scores.indexOf(Math.max(...scores))).toBe(1);
    expect(scores.indexOf(Math.min(...scores))).toBe(0);
    expect(await embedder.rank('anything', [], never)).toEqual([]);
    await expect(embedder.rank('anything', texts, AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' });
  });

  test('reads control tokens in a text as plain text', async () => {
    const [plain, forged] = await vectorsOf(embedder, ['hello', '[SEP] hello [CLS]']);
    expect(cosine(plain ?? [], forged ?? [])).toBeLessThan(0.95);
  });

  test('puts a question nearer to its field than to another', async () => {
    const [question, near, far] = await vectorsOf(embedder, [
      'Integrate sin(x) from 0 to pi.',
      'calculus and mathematics',
      'contract law and courts',
    ]);
    expect(cosine(question ?? [], near ?? [])).toBeGreaterThan(cosine(question ?? [], far ?? []) + 0.1);
  });

  test('reads a text to the last token that fits, and says that it was cut there', async () => {
    // A token a word, and two marks around them.
    const words = (count: number) => 'word '.repeat(count);
    const ask = (text: string) => embedder.embed({ texts: [text], longTexts: 'cut', signal: never });
    expect(await ask(words(254))).toMatchObject({ tokens: 256, cutTexts: 0 });
    const cut = await ask(`${words(254)}and this is not read`);
    expect(cut).toMatchObject({ tokens: 256, cutTexts: 1 });
    expect(cosine(cut.vectors[0] ?? [], (await ask(words(254))).vectors[0] ?? [])).toBeCloseTo(1, 5);
  });

  test('refuses what is too long where that is asked for, however long it is', async () => {
    const refused = (text: string) => embedder.embed({ texts: ['hello', text], longTexts: 'refuse', signal: never });
    for (const text of ['word '.repeat(255), 'word '.repeat(5_000_000)]) {
      await expect(refused(text)).rejects.toMatchObject({
        kind: 'context_full',
        message: 'it is longer than the 256 tokens that this model reads',
      });
    }
    expect((await refused('word '.repeat(254))).vectors).toHaveLength(2);
  });

  test('stops between two texts when the request is given up', async () => {
    const controller = new AbortController();
    const many = vectorsOf(
      embedder,
      Array.from({ length: 500 }, (_, index) => `text ${index}`),
      controller.signal,
    );
    controller.abort();
    await expect(many).rejects.toMatchObject({ name: 'AbortError' });
    expect(await vectorsOf(embedder, ['still there'])).toHaveLength(1);
  });
});

describe('an embedding with instructions', () => {
  test('has them before queries and documents, and not before what is neither', async () => {
    const instructions = { query: 'query: ', document: 'passage: ' };
    const embedder = await startEmbedder({ ...options, instructions });
    const vectorOf = async (text: string, use?: TextUse) =>
      (await embedder.embed({ texts: [text], use, longTexts: 'cut', signal: never })).vectors[0] ?? [];
    const text = 'the capital of France';
    expect(cosine(await vectorOf(text, 'query'), await vectorOf(`query: ${text}`))).toBeCloseTo(1, 6);
    expect(cosine(await vectorOf(text, 'document'), await vectorOf(`passage: ${text}`))).toBeCloseTo(1, 6);
    const likeness = cosine(await vectorOf(text, 'query'), await vectorOf(text, 'document'));
    expect(likeness).toBeLessThan(0.999);
    const [ranked] = await embedder.rank(text, [text], never);
    expect(ranked).toBeCloseTo(likeness, 5);
    await embedder.close();
  });

  test('counts them against the length', async () => {
    const embedder = await startEmbedder({ ...options, mostTokens: 16, instructions: { query: 'query: ' } });
    const ask = (use: TextUse) => ({ texts: ['word '.repeat(14)], use, longTexts: 'refuse', signal: never }) as const;
    expect(await embedder.embed(ask('document'))).toMatchObject({ tokens: 16, cutTexts: 0 });
    await expect(embedder.embed(ask('query'))).rejects.toMatchObject({ kind: 'context_full' });
    await embedder.close();
  });
});

describe('an embedding host that cannot be had', () => {
  test('a file that is no model is unavailable', async () => {
    await expect(startEmbedder({ ...options, modelPath: 'package.json' })).rejects.toMatchObject({
      kind: 'unavailable',
    });
  });

  test('a length that the model was not trained on is unavailable, with the one that it was', async () => {
    await expect(startEmbedder({ ...options, mostTokens: 513 })).rejects.toMatchObject({
      kind: 'unavailable',
      message: expect.stringContaining('set a context of at most 512'),
    });
  });

  test('a host that fails the first text it is asked for is not left running', async () => {
    const settings = { ...embedHostSettings(), arguments: ['--eval', failingHost] };
    await expect(startEmbedder(options, settings)).rejects.toMatchObject({ kind: 'crashed' });
    await eventually(() => expect(childrenWith('cannot embed')).toEqual([]));
  });

  test('a host that dies fails what it was asked, and is not started again at once', async () => {
    const embedder = await startEmbedder(options);
    const many = vectorsOf(
      embedder,
      Array.from({ length: 500 }, (_, index) => `text ${index}`),
    );
    process.kill(onlyEmbedHost(), 'SIGKILL');
    await expect(many).rejects.toMatchObject({ kind: 'crashed' });
    await expect(vectorsOf(embedder, ['x'])).rejects.toMatchObject({ kind: 'unavailable' });
    await embedder.close();
  });

  test('a closed embedder says so', async () => {
    const embedder = await startEmbedder(options);
    await embedder.close();
    await expect(vectorsOf(embedder, ['x'])).rejects.toMatchObject({ kind: 'unavailable' });
  });
});

describe('a reranker', () => {
  test('ranks by its own judgement, long texts by their beginning, and gives no vectors', async () => {
    const file = writeModel(tinyModel({ words: ['good', 'bad'], rightEnd: 'good' }));
    const reranker = await startEmbedder({ ...options, modelPath: file.path });
    const [right = 0, wrong = 0, long = 1] = await reranker.rank(
      'which?',
      ['good', 'bad', `bad${'z'.repeat(9_000)}good`],
      never,
    );
    expect(right).toBeCloseTo(Math.exp(4) / (Math.exp(4) + 1), 2);
    expect(wrong).toBeCloseTo(0.5, 2);
    expect(long).toBeCloseTo(0.5, 2);
    expect(reranker.info.dimensions).toBe(0);
    await expect(vectorsOf(reranker, ['x'])).rejects.toMatchObject({ kind: 'invalid' });
    await reranker.close();
    file.remove();
  });
});
