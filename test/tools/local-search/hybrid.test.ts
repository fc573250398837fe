import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { Embedder } from '../../../src/inference/embedder.ts';
import { EngineFailure } from '../../../src/inference/engine.ts';
import { createLocalSearch } from '../../../src/tools/local-search/local-search.ts';
import { fuseRanks } from '../../../src/tools/local-search/vectors.ts';

const folder = mkdtempSync(join(tmpdir(), 'orchestra-hybrid-'));
writeFileSync(join(folder, 'cars.md'), '# Cars\n\nThe automobile must be washed on Friday.');
writeFileSync(join(folder, 'food.md'), '# Food\n\nThe soup is served at noon.');
afterAll(() => rmSync(folder, { recursive: true }));

/** Knows two meanings, each with a direction of its own: what is about vehicles, and everything else. */
const twoMeanings = (embed?: Embedder['embed']): Embedder => ({
  info: { dimensions: 2, mostTokens: 256, weightsHash: 'none' },
  embed:
    embed ??
    (async ({ texts }) => ({
      vectors: texts.map((text) => Float32Array.from(/vehicle|automobile/i.test(text) ? [1, 0] : [0, 1])),
      tokens: 0,
      cutTexts: 0,
    })),
  close: async () => undefined,
});
const request = (query: string) => ({ query, limit: 5, signal: new AbortController().signal });
const indexWith = (embedder: Embedder) =>
  createLocalSearch({ name: 'docs', meter: 'tool:docs', folders: [folder], privacy: 'any', embedder });

test('finds by meaning what shares no word with the query', async () => {
  const index = await indexWith(twoMeanings());
  await index.embedded;
  const { documents } = await index.search(request('vehicle'));
  expect(documents.map(({ url }) => url)).toEqual(['file:cars.md#cars']);
});

test('finds by words alone when the embedder fails', async () => {
  const failing = twoMeanings(async () => {
    throw new EngineFailure('crashed', 'gone');
  });
  const index = await indexWith(failing);
  await index.embedded;
  const { documents } = await index.search(request('soup at noon'));
  expect(documents.map(({ url }) => url)).toEqual(['file:food.md#food']);
});

test('documents and queries are embedded as such, and it says of how many only the beginning was read', async () => {
  const uses = new Map<string, string | undefined>();
  const index = await indexWith(
    twoMeanings(async ({ texts, use }) => {
      for (const text of texts) uses.set(text, use);
      return { vectors: texts.map(() => Float32Array.from([1, 0])), tokens: 0, cutTexts: 1 };
    }),
  );
  expect(await index.embedded).toBe(1);
  await index.search(request('soup'));
  expect(uses.get('soup')).toBe('query');
  expect([...uses.values()].filter((use) => use === 'document')).toHaveLength(2);
});

test('a search that is given up while its query is embedded is an abort', async () => {
  const controller = new AbortController();
  let calls = 0;
  const slow = twoMeanings(async ({ texts }) => {
    calls += 1;
    if (calls > 1) controller.abort();
    return { vectors: texts.map(() => Float32Array.from([1, 0])), tokens: 0, cutTexts: 0 };
  });
  const index = await indexWith(slow);
  await index.embedded;
  const search = index.search({ query: 'soup', limit: 5, signal: controller.signal });
  await expect(search).rejects.toMatchObject({ name: 'AbortError' });
});

test('a closed index stops embedding', async () => {
  let stopped: AbortSignal | undefined;
  const index = await indexWith(
    twoMeanings(async ({ signal }) => {
      stopped = signal;
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new DOMException('cancelled', 'AbortError')));
      });
    }),
  );
  index.close();
  await index.embedded;
  expect(stopped?.aborted).toBe(true);
});

test('what two rankings agree on comes before what heads only one of them', () => {
  expect(
    fuseRanks([
      [1, 2],
      [3, 2],
    ]),
  ).toEqual([2, 1, 3]);
});
