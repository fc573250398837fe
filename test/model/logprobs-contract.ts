import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EngineOptions, InferenceEngine } from '../../src/inference/engine.ts';
import { writeModel } from '../support/gguf/tiny-model.ts';
import { attentive, endless, engineOptions, generated, generateRequest, story } from './tiny-models.ts';

type Start = (options: EngineOptions) => Promise<InferenceEngine>;

/** What every InferenceEngine says of the tokens that it writes. */
export function logprobsContract(start: Start): void {
  const files = [story(), endless(), attentive()].map(writeModel);
  let engines: InferenceEngine[];
  beforeAll(async () => {
    engines = await Promise.all(files.map(({ path }) => start(engineOptions(path))));
  });
  afterAll(async () => {
    for (const engine of engines) await engine.close();
    for (const file of files) file.remove();
  });
  const engineFor = (name: 'story' | 'endless' | 'attentive'): InferenceEngine => {
    const engine = engines[['story', 'endless', 'attentive'].indexOf(name)];
    if (engine === undefined) throw new Error('not started');
    return engine;
  };
  const tell = (name: Parameters<typeof engineFor>[0], changes: Parameters<typeof generateRequest>[0]) =>
    generated(engineFor(name), generateRequest({ topLogprobs: 3, ...changes }));

  test.each([0, 0.3, 1, 1.7])('are the model’s own at temperature %d and top-p 0.6', async (temperature) => {
    const { logprobs } = await tell('story', { temperature, topP: 0.6, stop: ['</think>'] });
    const [end, enough] = logSoftmax(12, 13);
    const choice = logprobs[2];
    expect(logprobs.slice(0, 2).map(({ token }) => token)).toEqual(['the', ' good']);
    expect(logprobs[0]?.logprob).toBeCloseTo(0, 5);
    expect(choice).toMatchObject({ token: ' enough' });
    expect(choice?.logprob).toBeCloseTo(enough ?? 0, 2);
    expect(choice?.top_logprobs.map(({ token }) => token).slice(0, 2)).toEqual([' enough', '<|im_end|>']);
    expect(choice?.top_logprobs[1]?.logprob).toBeCloseTo(end ?? 0, 2);
  });

  test('are given for what was sampled, likely or not, by the same seed the same', async () => {
    const written = new Set<string>();
    for (let seed = 0; seed < 12; seed++) {
      const request = { temperature: 1.2, seed, maxTokens: 12 };
      const once = await tell('attentive', request);
      const again = await tell('attentive', request);
      expect(again.text).toBe(once.text);
      expect(again.logprobs.map(({ token }) => token)).toEqual(once.logprobs.map(({ token }) => token));
      written.add(once.text);
      for (const { logprob, top_logprobs } of once.logprobs) {
        expect(top_logprobs.length).toBe(3);
        expect(logprob).toBeLessThanOrEqual(top_logprobs[0]?.logprob ?? Number.NaN);
      }
    }
    expect(written.size).toBeGreaterThan(6);
  });

  test('follow the chances: of many seeds, as many take a way as its chance says', async () => {
    let longer = 0;
    for (let seed = 0; seed < 60; seed++) {
      const { text } = await tell('story', { temperature: 1, seed, stop: ['</think>'] });
      if (text === 'the good enough') longer += 1;
    }
    // A chance of 0.731 in 60: 44 of them, give or take three standard deviations.
    expect(longer).toBeGreaterThan(33);
    expect(longer).toBeLessThan(55);
  });

  test('hold the bytes of every token, also of half a character', async () => {
    const { text, logprobs } = await tell('endless', { maxTokens: 12, topLogprobs: 0 });
    expect(Buffer.from(logprobs.flatMap(({ bytes }) => bytes)).toString()).toBe(text);
    expect(logprobs.length).toBe(12);
    expect(logprobs[2]).toMatchObject({ bytes: [0xf0], top_logprobs: [] });
  });

  test('end where the text does', async () => {
    const { text, logprobs } = await tell('endless', { stop: ['y'], maxTokens: 12 });
    expect(text).toBe('x ');
    expect(logprobs.map(({ token }) => token)).toEqual(['x']);
    expect((await generated(engineFor('endless'), generateRequest({ maxTokens: 4 }))).logprobs).toEqual([]);
  });

  test('are chances among what a grammar allows', async () => {
    const { text, logprobs } = await tell('attentive', { jsonSchema: { enum: ['a', 'b'] }, temperature: 0.5 });
    expect(['"a"', '"b"']).toContain(text);
    const letter = logprobs.find(({ token }) => /^[ab]$/.test(token));
    const chances = letter?.top_logprobs.map(({ logprob }) => Math.exp(logprob)) ?? [];
    expect(chances.length).toBe(2);
    expect(chances.reduce((sum, chance) => sum + chance, 0)).toBeCloseTo(1, 3);
  });

  test.each([-1, 21, 1.5])('are refused for %d alternatives', async (topLogprobs) => {
    await expect(tell('story', { topLogprobs })).rejects.toMatchObject({ kind: 'invalid' });
  });
}

function logSoftmax(...logits: number[]): number[] {
  const total = logits.reduce((sum, logit) => sum + Math.exp(logit), 0);
  return logits.map((logit) => logit - Math.log(total));
}
