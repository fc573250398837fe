import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { tinyModel, writeModel } from '../support/gguf/tiny-model.ts';

/** Sentence embeddings of the configuration, through the served API. */
describe('an entry of `embeddings`', () => {
  const reranker = writeModel(tinyModel({ words: ['good', 'bad'], rightEnd: 'good' }));
  const folder = mkdtempSync(join(tmpdir(), 'orchestra-embeddings-'));
  let gateway: TestGateway;
  beforeAll(async () => {
    writeFileSync(join(folder, 'long.md'), `# Harbours\n\n${'Ships lie at anchor in the bay. '.repeat(60)}`);
    gateway = await startTestGateway({
      config: {
        embeddings: {
          plain: { path: 'all-minilm-l6-v2' },
          instructed: { path: 'all-minilm-l6-v2', query: 'query: ', context: 32 },
          missing: { path: '/nowhere/e5.gguf' },
          ranking: { path: reranker.path, context: 128 },
        },
        tools: { docs: { kind: 'local_search', folders: [folder], embedding: 'instructed' } },
        relay: ['local/*'],
      },
      slots: { 'search-1': { role: 'search', tools: ['docs'], quality: 'documents' } },
    });
  });
  afterAll(async () => {
    await gateway.close();
    rmSync(folder, { recursive: true });
    reranker.remove();
  });
  const embed = (model: string, input: string | string[], others: object = {}) =>
    gateway.client.embeddings.create({ model: `local/${model}`, input, ...others });

  test('is listed and embeds for a client, as numbers or packed', async () => {
    const models = [];
    for await (const { id } of gateway.client.models.list()) models.push(id);
    expect(models.filter((id) => id.startsWith('local/'))).toEqual(['local/plain', 'local/instructed']);
    const packed = await embed('plain', ['a harbour', 'a port']);
    expect(packed).toMatchObject({ object: 'list', model: 'local/plain' });
    expect(packed.usage).toMatchObject({ prompt_tokens: 8, total_tokens: 8, cost: 0 });
    expect(packed.data.map(({ index, embedding }) => [index, embedding.length])).toEqual([
      [0, 384],
      [1, 384],
    ]);
    const plain = await embed('plain', 'a harbour', { encoding_format: 'float', dimensions: 384 });
    expect(plain.data[0]?.embedding).toEqual(packed.data[0]?.embedding);
  });

  test('puts its instruction before what the client calls a query', async () => {
    const vectorOf = async (input: string, others?: object) => (await embed('instructed', input, others)).data[0];
    expect(await vectorOf('harbour', { input_type: 'query' })).toEqual(await vectorOf('query: harbour'));
    expect(await vectorOf('harbour', { input_type: 'document' })).toEqual(await vectorOf('harbour'));
  });

  test.each([
    ['a text that is too long', 'instructed', ['short', 'word '.repeat(31)], {}, /^400 input\.1: .*than the 32 tokens/],
    ['tokens of another model', 'plain', [[1, 2]], {}, /^400 input: is a text or a list/],
    ['no text at all', 'plain', [], {}, /^400 input/],
    ['other dimensions', 'plain', 'x', { dimensions: 256 }, /^400 dimensions: the vectors of this model have 384/],
    ['another purpose', 'plain', 'x', { input_type: 'poem' }, /^400 input_type/],
  ])('refuses %s by name', async (_, model, input, others, message) => {
    await expect(embed(model, input as string, others)).rejects.toThrow(message);
  });

  test('takes no chat, and is not there without its file', async () => {
    const messages = [{ role: 'user' as const, content: 'hi' }];
    const chat = gateway.client.chat.completions.create({ model: 'local/plain', messages });
    await expect(chat).rejects.toThrow(/^400 `local\/plain` serves \/v1\/embeddings only/);
    await expect(embed('missing', 'x')).rejects.toMatchObject({ status: 404 });
    const notes = gateway.notes.join('\n');
    expect(notes).toMatch(/embeddings\.missing is left out: .*\/nowhere\/e5\.gguf/);
    expect(notes).toMatch(/embeddings\.ranking is left out: .* ranks texts and gives no vectors/);
  });

  test('finds documents, and the operator is told where it reads the beginning only', async () => {
    await expect.poll(() => gateway.notes.join('\n')).toMatch(/docs: of \d+ of \d+ passages the embedding reads/);
    const ready: unknown = await (await fetch(`${gateway.url}/readyz`)).json();
    expect(JSON.stringify(ready)).toMatch(/passages the embedding reads the beginning only/);
  });
});
