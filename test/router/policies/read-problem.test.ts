import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Embedder } from '../../../src/inference/embedder.ts';
import { EngineFailure } from '../../../src/inference/engine.ts';
import { gistOf } from '../../../src/router/policies/gist.ts';
import { readHeads } from '../../../src/router/policies/heads.ts';
import { comparison } from '../../../src/router/policies/problem-reading.ts';
import { createProblemReader } from '../../../src/router/policies/read-problem.ts';

const heads = readHeads();
const golden: { input: string; expected: string }[] = JSON.parse(readFileSync('test/golden/embedding.json', 'utf8'));

/** The reference's vectors of the golden texts: no model runs here. */
function goldenEmbedder(): Embedder & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    info: { dimensions: 384, mostTokens: 256, weightsHash: heads.embeddingSha256 },
    close: async () => undefined,
    embed: async ({ texts }) => {
      const vectors = texts.map((text) => {
        asked.push(text);
        const found = golden.find(({ input }) => input === text);
        if (!found) throw new EngineFailure('unavailable', 'not a golden text');
        const codes = new Int8Array(Buffer.from(found.expected, 'base64'));
        const length = Math.hypot(...codes);
        return Float32Array.from(codes, (code) => code / length);
      });
      return { vectors, tokens: 0, cutTexts: 0 };
    },
  };
}

const names = ['math', 'law', 'biology', 'history', 'code output prediction'];
const signal = () => new AbortController().signal;
const likeliest = (domains: ReadonlyMap<string, number>) =>
  [...domains].reduce((best, next) => (next[1] > best[1] ? next : best))[0];

test.each([
  ['Prove that the square root of 2 is irrational.', 'math'],
  ['The defendant promised in writing to sell the land. Is the contract enforceable?', 'law'],
  ['Which enzyme unwinds DNA during replication?', 'biology'],
  ['What caused the fall of the Western Roman Empire?', 'history'],
])('%s is about %s', async (problem, domain) => {
  const { domains } = await createProblemReader(goldenEmbedder(), heads)(problem, names, signal());
  expect(likeliest(domains)).toBe(domain);
});

test('chances of domains never exceed 1, and what is like none of them is elsewhere', async () => {
  const read = createProblemReader(goldenEmbedder(), heads);
  for (const { input } of golden.filter(({ input: text }) => text.length < 600)) {
    const { domains } = await read(input, ['law'], signal());
    expect(domains.get('law')).toBeLessThanOrEqual(1);
  }
  const { domains } = await read('Solve 3x + 7 = 22.', ['law'], signal());
  expect(domains.get('law')).toBeLessThan(0.2);
});

test('tells requests for documents and for a calculation from small talk', async () => {
  const read = createProblemReader(goldenEmbedder(), heads);
  const needsOf = async (problem: string) => (await read(problem, [], signal())).needs;
  expect((await needsOf('What does our travel policy say about train tickets?')).documents).toBeGreaterThan(0.5);
  const sums = await needsOf('Calculate the compound interest on $1,000 at 5% for 3 years.');
  expect(sums.calculation).toBeGreaterThan(0.5);
  const { facts, documents, calculation } = await needsOf('Thanks, that helped!');
  expect(Math.max(facts, documents, calculation)).toBeLessThan(0.2);
});

test('embeds a problem once a run', async () => {
  const embedder = goldenEmbedder();
  const read = createProblemReader(embedder, heads);
  const run = signal();
  await read('hello', ['law'], run);
  await read('hello', ['law'], run);
  expect(embedder.asked).toEqual(['hello']);
});

test('reads by words alone when the embedder fails', async () => {
  const read = createProblemReader(goldenEmbedder(), heads);
  const { domains, shift } = await read('an equation nobody embedded: x^2 = 4', ['math', 'law'], signal());
  expect([...domains]).toEqual([['math', 1]]);
  expect(shift).toBe(0);
});

test('a request that is given up is an abort, not a guess', async () => {
  const leaving: Embedder = {
    ...goldenEmbedder(),
    embed: () => Promise.reject(new DOMException('cancelled', 'AbortError')),
  };
  await expect(createProblemReader(leaving, heads)('hello', [], signal())).rejects.toMatchObject({
    name: 'AbortError',
  });
});

test('questions with options and prose are not voted on, numbers are', () => {
  const rates = { options: 0.3, open: 0.2 };
  expect(comparison('Which?\nA. red\nB. green', rates)).toEqual({ coincidence: 0.3, comparable: 0 });
  expect(comparison('Write a poem.', rates).comparable).toBe(0);
  expect(comparison('What is 2 + 2?', rates).comparable).toBeGreaterThan(0.5);
});

test('the gist keeps both ends of a long text and all of a short one', () => {
  expect(gistOf('🙂'.repeat(600))).toBe('🙂'.repeat(600));
  expect(gistOf(`${'a'.repeat(500)}${'b'.repeat(500)}`)).toBe(`${'a'.repeat(400)}\n${'b'.repeat(200)}`);
});
