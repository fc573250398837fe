import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { markup, untrusted } from '../../src/contract/segment.ts';
import type { Adapter, EngineOptions, InferenceEngine } from '../../src/inference/engine.ts';
import { writeModel } from '../support/gguf/tiny-model.ts';
import { endless, engineOptions, generated, generateRequest, prefersB, story } from './tiny-models.ts';

type Start = (options: EngineOptions) => Promise<InferenceEngine>;

/** What every InferenceEngine does with LoRA adapters. */
export function adapterContract(start: Start): void {
  const base = writeModel(story());
  const adapterFile = writeModel(prefersB());
  const adapter: Adapter = { path: adapterFile.path, scale: 1 };
  let engine: InferenceEngine;
  beforeAll(async () => {
    engine = await start(engineOptions(base.path, { adapter }));
  });
  afterAll(async () => {
    await engine.close();
    base.remove();
    adapterFile.remove();
  });

  /** Of `b` where the script gives `a` logit 2 and `b` logit 1. */
  const logitOfB = async (): Promise<number> => {
    const { logProbabilities } = await engine.score({
      prompt: [untrusted(':')],
      choices: [[markup('a')], [markup('b')]],
      thought: { budgetTokens: 0, open: markup(''), close: markup('') },
      seed: 1,
      signal: new AbortController().signal,
    });
    const [a = 0, b = 0] = logProbabilities;
    return 2 + b - a;
  };

  test('adds what training changed to what the base says, as strongly as its scale', async () => {
    expect(await logitOfB()).toBeCloseTo(5, 3);
    await engine.useAdapter({ ...adapter, scale: 0.5 });
    expect(await logitOfB()).toBeCloseTo(3, 3);
    await engine.useAdapter(undefined);
    expect(await logitOfB()).toBeCloseTo(1, 3);
    await engine.useAdapter(adapter);
    expect(await logitOfB()).toBeCloseTo(5, 3);
  });

  test('tells every combination of weights, adapter and scale by its hash', async () => {
    const hashes = [];
    for (const used of [adapter, { ...adapter, scale: 0.5 }, undefined, adapter]) {
      hashes.push((await engine.useAdapter(used)).weightsHash);
      expect(engine.info.weightsHash).toBe(hashes.at(-1));
    }
    expect(hashes[3]).toBe(hashes[0]);
    expect(new Set(hashes).size).toBe(3);
  });

  test('takes what the file holds now, not what it held at the last swap', async () => {
    const file = writeModel(prefersB());
    await engine.useAdapter({ path: file.path, scale: 1 });
    writeFileSync(file.path, prefersB({ logit: 7 }));
    const { weightsHash } = await engine.useAdapter({ path: file.path, scale: 1 });
    expect(await logitOfB()).toBeCloseTo(8, 2);
    expect(weightsHash).not.toBe((await engine.useAdapter(adapter)).weightsHash);
    file.remove();
  });

  test('lets who has begun end as begun, and answers who comes later from the new weights', async () => {
    const file = writeModel(endless());
    const talker = await start(engineOptions(file.path, { contextTokens: 16_384 }));
    const running = generated(talker, generateRequest({ maxTokens: 600 }));
    const waiting = generated(talker, generateRequest({ maxTokens: 2 }));
    const says = writeModel(prefersB({ after: 'x', next: 'b', logit: 60 }));
    await talker.useAdapter({ path: says.path, scale: 1 });
    expect((await generated(talker, generateRequest({ maxTokens: 2 }))).text).toBe('xb');
    await talker.useAdapter(undefined);
    expect((await running).end.usage.outputTokens).toBe(600);
    expect((await running).text).not.toContain('b');
    expect((await waiting).text).toBe('x y');
    await talker.close();
    for (const each of [file, says]) each.remove();
  });

  test.each([
    ['a file that is not there', () => '/nowhere.gguf', /cannot be opened/],
    ['weights', () => base.path, /it is no adapter/],
    [
      'an adapter for another architecture',
      () => write({ architecture: 'llama' }),
      /for llama, but the model is qwen3/,
    ],
    ['an adapter of another size', () => write({ width: 64 }), /cannot use the adapter/],
  ])('refuses %s and goes on as before', async (_, path, message) => {
    await engine.useAdapter(adapter);
    await expect(engine.useAdapter({ path: path(), scale: 1 })).rejects.toMatchObject({
      kind: 'unavailable',
      message: expect.stringMatching(message),
    });
    expect(await logitOfB()).toBeCloseTo(5, 3);
    for (const file of written.splice(0)) file.remove();
  });
  const written: ReturnType<typeof writeModel>[] = [];
  const write = (changes: Parameters<typeof prefersB>[0]): string => {
    const file = writeModel(prefersB(changes));
    written.push(file);
    return file.path;
  };

  test('refuses to start with an adapter that does not fit, and to take one for weights', async () => {
    const path = write({ width: 64 });
    const starting = start(engineOptions(base.path, { adapter: { path, scale: 1 } }));
    await expect(starting).rejects.toMatchObject({ kind: 'unavailable', message: expect.stringContaining(path) });
    await expect(start(engineOptions(adapter.path))).rejects.toThrow('it is an adapter; name it beside the model');
    await expect(engine.useAdapter({ ...adapter, scale: Number.NaN })).rejects.toMatchObject({ kind: 'invalid' });
    for (const file of written.splice(0)) file.remove();
  });
}
