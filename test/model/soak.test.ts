import { existsSync, readdirSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { untrusted } from '../../src/contract/segment.ts';
import { readGgufFacts } from '../../src/inference/gguf-file.ts';
import { startLlamaEngine } from '../../src/inference/llama-engine.ts';
import { writeModel } from '../support/gguf/tiny-model.ts';
import { attentive, engineOptions, generated, generateRequest } from './tiny-models.ts';

const snapshotBytes = 4 * 2 ** 20;
const mostGrowthBytes = 48 * 2 ** 20;
const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith('orchestra-snapshots-'));

const bytesIn = (folder: string): number =>
  readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);

test('a long conversation is not written to disk for the beginning that somebody shares with it', async () => {
  const file = writeModel(attentive());
  const { cacheBytesPerToken } = await readGgufFacts(file.path);
  const roomTokens = 800;
  const before = folders();
  const engine = await startLlamaEngine(
    engineOptions(file.path, { contextTokens: 4_096, sequences: 2, snapshotBytes: roomTokens * cacheBytesPerToken }),
  );
  const folder = join(tmpdir(), folders().find((name) => !before.includes(name)) ?? '');
  const ask = (beginning: string, rest: string) =>
    generated(engine, generateRequest({ messages: [{ role: 'user', content: beginning + rest }], maxTokens: 2 }));
  const beginning = 'k'.repeat(120);
  const { end } = await ask(beginning, 'q'.repeat(roomTokens * 2));
  expect(end.usage.promptTokens).toBeGreaterThan(roomTokens);
  await ask(beginning, 'z');
  expect(bytesIn(folder)).toBeLessThanOrEqual(roomTokens * cacheBytesPerToken);
  await engine.close();
  file.remove();
});

test('a thousand runs leave memory and disk as they were', async () => {
  const file = writeModel(attentive());
  const before = folders();
  const engine = await startLlamaEngine(
    engineOptions(file.path, { contextTokens: 1_024, sequences: 3, prefillChunkTokens: 128, snapshotBytes }),
  );
  const folder = join(tmpdir(), folders().find((name) => !before.includes(name)) ?? '');
  const noThought = { budgetTokens: 0, open: untrusted(''), close: untrusted('') };
  const run = async (number: number) => {
    const controller = new AbortController();
    const signal = controller.signal;
    const content = `${number % 40} ${'the user said that the answer is good enough '.repeat(4)}`;
    const privateTo = number % 5 === 0 ? `team-${number % 3}` : undefined;
    if (number % 7 === 0) setTimeout(() => controller.abort(), 2);
    const choices = ['a', 'b', 'the'].map((text) => [untrusted(text)]);
    await engine.score({ prompt: [untrusted(content)], choices, thought: noThought, seed: 1, privateTo, signal });
    const messages = [{ role: 'user' as const, content }];
    return generated(engine, generateRequest({ messages, maxTokens: 3, privateTo, signal, temperature: 1 }));
  };
  const hundred = (start: number) =>
    Promise.allSettled(Array.from({ length: 100 }, (_, index) => start + index).map(limited(8, run)));

  let sizes: number[] = [];
  for (let start = 0; start < 1_000; start += 100) {
    const ends = await hundred(start);
    const failures = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason.name] : []));
    expect(failures.length).toBeLessThan(50);
    expect(failures.every((name) => name === 'AbortError')).toBe(true);
    expect(bytesIn(folder)).toBeLessThan(snapshotBytes * 1.5);
    sizes = [...sizes, process.memoryUsage.rss()];
  }
  const [settled = 0] = sizes.slice(3);
  expect((sizes.at(-1) ?? 0) - settled).toBeLessThan(mostGrowthBytes);
  await engine.close();
  expect(existsSync(folder)).toBe(false);
  file.remove();
});

/** Runs at most so many at a time, in order. */
function limited<Result>(most: number, act: (input: number) => Promise<Result>): (input: number) => Promise<Result> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (input) => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await act(input);
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  };
}
