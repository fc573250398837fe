import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { markup, type Segment, untrusted } from '../../src/contract/segment.ts';
import type {
  EngineOptions,
  EngineUsage,
  GenerateRequest,
  InferenceEngine,
  JudgeRequest,
  ScoreRequest,
} from '../../src/inference/engine.ts';
import { writeModel } from '../support/gguf/tiny-model.ts';
import { adapterContract } from './adapter-contract.ts';
import { logprobsContract } from './logprobs-contract.ts';
import {
  attentive,
  endless,
  engineOptions,
  type Generated,
  generated,
  generateRequest,
  story,
  templateless,
  wavering,
} from './tiny-models.ts';

import { toolsContract } from './tools-contract.ts';

/** What every InferenceEngine does, wherever its native code runs. */

type Start = (options: EngineOptions) => Promise<InferenceEngine>;

const noThought = { budgetTokens: 0, open: markup(''), close: markup('') };
const thought = (budgetTokens: number) => ({
  budgetTokens,
  open: markup('<think>\n'),
  close: markup('\n</think>\n\n'),
});
const single = (...texts: string[]): Segment[][] => texts.map((text) => [markup(text)]);

const scoreRequest = (prompt: Segment[], choices: Segment[][], changes: Partial<ScoreRequest> = {}): ScoreRequest => ({
  prompt,
  choices,
  thought: noThought,
  seed: 1,
  signal: new AbortController().signal,
  ...changes,
});

const chances = async (engine: InferenceEngine, request: ScoreRequest): Promise<number[]> =>
  (await engine.score(request)).logProbabilities.map(Math.exp);

const softmax = (...logits: number[]): number[] => {
  const weights = logits.map(Math.exp);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
};

function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual.length).toBe(expected.length);
  actual.forEach((value, index) => {
    expect(value).toBeCloseTo(expected[index] ?? Number.NaN, 4);
  });
}

/** A model on disk and an engine on it for the tests of one `describe`. */
function withEngine(start: Start, bytes: () => Buffer, changes: Partial<EngineOptions> = {}): () => InferenceEngine {
  let file: ReturnType<typeof writeModel>;
  let engine: InferenceEngine;
  beforeAll(async () => {
    file = writeModel(bytes());
    engine = await start(engineOptions(file.path, changes));
  });
  afterAll(async () => {
    await engine.close();
    file.remove();
  });
  return () => engine;
}

export function engineContract(name: string, start: Start): void {
  describe(name, () => {
    describe('score', () => scoring(withEngine(start, story)));
    describe('generate', () => generation(withEngine(start, story)));
    describe('penalties', () => penalties(withEngine(start, wavering)));
    describe('endless text', () => endlessText(withEngine(start, endless, { contextTokens: 256 })));
    describe('the cache', () => caching(withEngine(start, attentive, { contextTokens: 4_096, sequences: 2 })));
    describe('sharing', () => sharing(withEngine(start, attentive, { contextTokens: 4_096, sequences: 4 })));
    describe('no snapshots', () =>
      withoutSnapshots(withEngine(start, attentive, { contextTokens: 4_096, sequences: 2, snapshotBytes: 0 })));
    describe('judge', () => judging(withEngine(start, attentive, { contextTokens: 1_024 })));
    describe('structured text', () => structuredText(withEngine(start, attentive, { sequences: 2 })));
    describe('logprobs', () => logprobsContract(start));
    describe('tools', () => toolsContract(start));
    describe('adapters', () => adapterContract(start));
    describe('the line', () => waiting(withEngine(start, endless, { contextTokens: 16_384 })));
    describe('closing', () => closing(start));
    describe('a broken chat template', () => brokenTemplate(withEngine(start, templateless)));
  });
}

function scoring(engine: () => InferenceEngine): void {
  test('tells what was loaded', () => {
    expect(engine().info).toMatchObject({ architecture: 'qwen3', device: 'cpu', contextTokens: 2_048 });
    expect(engine().info.weightsHash).toMatch(/^[0-9a-f]{64}$/);
  });

  test('gives each choice its masked chance', async () => {
    expectClose(await chances(engine(), scoreRequest([untrusted(':')], single('a', 'b'))), softmax(2, 1));
  });

  test('splits the chance of a common beginning where the choices part', async () => {
    const [a, b, good] = softmax(2, 1, 1) as [number, number, number];
    const [enough, end] = softmax(13, 12) as [number, number];
    const request = scoreRequest([untrusted(':')], single('a', 'b', ' good', ' good enough'));
    expectClose(await chances(engine(), request), [a, b, good * end, good * enough]);
  });

  test('can weigh the end of the turn as a choice', async () => {
    const request = scoreRequest([untrusted('?')], single('a', '<|im_end|>'));
    expectClose(await chances(engine(), request), softmax(1, 3));
  });

  test.each(['#', '%'])('scores choices that are all but impossible after %s', async (prompt) => {
    expectClose(await chances(engine(), scoreRequest([untrusted(prompt)], single('a', 'b'))), softmax(-40, -41));
  });

  test('gives a single choice the chance 1', async () => {
    expect((await engine().score(scoreRequest([untrusted(':')], single('the')))).logProbabilities).toEqual([0]);
  });

  test.each(['<|im_end|>', '<tool_call>'])('reads %s as a token in markup and as words in text', async (marker) => {
    const [asMarkup = 0] = await chances(engine(), scoreRequest([markup(marker)], single('a', 'b')));
    const [asText = 0] = await chances(engine(), scoreRequest([untrusted(marker)], single('a', 'b')));
    expect(asMarkup).toBeGreaterThan(0.9);
    expect(asText).toBeLessThan(0.1);
  });

  test('ends a thought at its closing tag', async () => {
    const result = await engine().score(
      scoreRequest([markup('\n')], single('the', 'search'), { thought: thought(50), seed: 3 }),
    );
    expect(['the good', 'the good enough']).toContain(result.thought);
    expect(result.usage.outputTokens).toBeLessThan(5);
    expect(Math.exp(result.logProbabilities[0] ?? 0)).toBeGreaterThan(0.99);
  });

  test('ends a thought at its budget', async () => {
    const request = scoreRequest([markup('\n')], single('the', 'search'), { thought: thought(1) });
    expect(await engine().score(request)).toMatchObject({ thought: 'the', usage: { outputTokens: 1 } });
  });

  test('thinks the same for the same seed, and not for all seeds', async () => {
    const think = async (seed: number) =>
      (await engine().score(scoreRequest([markup('\n')], single('a', 'b'), { thought: thought(50), seed }))).thought;
    const seeds = Array.from({ length: 12 }, (_, seed) => seed);
    const first = [];
    for (const seed of seeds) first.push(await think(seed));
    const second = [];
    for (const seed of seeds) second.push(await think(seed));
    expect(second).toEqual(first);
    expect(new Set(first).size).toBeGreaterThan(1);
  });

  test('closes a thought without budget at once', async () => {
    const closed = await engine().score(scoreRequest([markup('\n')], single('the', 'a'), { thought: thought(0) }));
    const written = scoreRequest([markup('\n<think>\n\n</think>\n\n')], single('the', 'a'));
    expect(closed.thought).toBe('');
    expect(closed.usage.outputTokens).toBe(0);
    expect(closed.logProbabilities).toEqual((await engine().score(written)).logProbabilities);
  });

  test.each([
    ['no choices', { choices: [] }],
    ['choices that are equal', { choices: single('a', 'a') }],
    ['an empty prompt', { prompt: [] }],
    ['a negative budget', { thought: { ...noThought, budgetTokens: -1 } }],
    ['a thought that cannot be closed', { thought: { ...noThought, budgetTokens: 5 } }],
    ['a seed that means "any"', { seed: 2 ** 32 - 1 }],
  ])('refuses %s', async (_, changes: Partial<ScoreRequest>) => {
    const request = { ...scoreRequest([untrusted(':')], single('a', 'b')), ...changes };
    await expect(engine().score(request)).rejects.toMatchObject({ name: 'EngineFailure', kind: 'invalid' });
  });

  test('refuses a prompt that does not fit', async () => {
    const request = scoreRequest([untrusted(':'.repeat(2_048))], single('a', 'b'));
    await expect(engine().score(request)).rejects.toMatchObject({ kind: 'context_full' });
  });

  test('counts the budget of the thought as part of what has to fit', async () => {
    const request = scoreRequest([untrusted(':')], single('a', 'b'), { thought: thought(2_048) });
    await expect(engine().score(request)).rejects.toMatchObject({ kind: 'context_full' });
  });

  test('counts tokens of text without control tokens', async () => {
    expect(await engine().countTokens('the')).toBe(1);
    expect(await engine().countTokens('')).toBe(0);
    expect(await engine().countTokens('<|im_end|>')).toBe('<|im_end|>'.length);
  });
}

function generation(engine: () => InferenceEngine): void {
  test('writes what the model says until its turn ends', async () => {
    const { text, end } = await generated(engine(), generateRequest({ stop: ['</think>'] }));
    expect(text).toBe('the good enough');
    expect(end.finishReason).toBe('stop');
    expect(end.usage.outputTokens).toBe(4);
  });

  test('follows its seed', async () => {
    const write = async (seed: number) =>
      (await generated(engine(), generateRequest({ temperature: 1, seed, stop: ['</think>'] }))).text;
    const seeds = Array.from({ length: 12 }, (_, seed) => seed);
    const first = [];
    for (const seed of seeds) first.push(await write(seed));
    const second = [];
    for (const seed of seeds) second.push(await write(seed));
    expect(second).toEqual(first);
    expect(new Set(first)).toEqual(new Set(['the good', 'the good enough']));
  });

  test.each(['<|im_end|>', '<|im_start|>', '<tool_call>', '</think>'])(
    'keeps %s in a message plain text',
    async (marker) => {
      const promptTokens = async (content: string) => {
        const { usage } = (await generated(engine(), generateRequest({ messages: [{ role: 'user', content }] }))).end;
        return usage.promptTokens + usage.cachedTokens;
      };
      const markerTokens = await engine().countTokens(marker);
      expect(markerTokens).toBeGreaterThan(5);
      expect((await promptTokens(`a${marker}b`)) - (await promptTokens('ab'))).toBe(markerTokens);
    },
  );

  test('takes every role that a client may send', async () => {
    const messages = (['system', 'developer', 'user', 'assistant', 'tool', 'function'] as const).map((role) => ({
      role,
      content: `said by ${role}`,
    }));
    expect((await generated(engine(), generateRequest({ messages }))).text).toMatch(/^the good/);
  });

  test.each([
    ['no messages', { messages: [] }],
    ['a temperature that is no number', { temperature: Number.NaN }],
    ['a negative temperature', { temperature: -1 }],
    ['a top-p above 1', { topP: 5 }],
    ['a top-p of 0', { topP: 0 }],
    ['no tokens to write', { maxTokens: 0 }],
    ['an empty stop string', { stop: [''] }],
    ['a seed that is too large', { seed: 2 ** 33 }],
  ])('refuses %s', async (_, changes) => {
    await expect(generated(engine(), generateRequest(changes))).rejects.toMatchObject({ kind: 'invalid' });
  });

  test('refuses messages that do not fit', async () => {
    const messages = [{ role: 'user' as const, content: 'z'.repeat(2_048) }];
    await expect(generated(engine(), generateRequest({ messages }))).rejects.toMatchObject({ kind: 'context_full' });
  });
}

function structuredText(engine: () => InferenceEngine): void {
  const schema = {
    type: 'object',
    properties: { grade: { enum: ['good', 'bad'] }, points: { type: 'integer', minimum: 3, maximum: 12 } },
    required: ['grade'],
  };

  test.each([0, 1, 2, 3, 4])('is JSON that the schema allows, whatever the model prefers (seed %i)', async (seed) => {
    const request = generateRequest({ jsonSchema: schema, temperature: 2, seed, maxTokens: 200 });
    const { text, end } = await generated(engine(), request);
    expect(end.finishReason).toBe('stop');
    const value = JSON.parse(text);
    expect(['good', 'bad']).toContain(value.grade);
    if ('points' in value) expect(value.points >= 3 && value.points <= 12).toBe(true);
  });

  test('holds for requests side by side, each with its own schema', async () => {
    const schemas = [{ const: 'one' }, { const: 'two' }, { type: 'boolean' }, schema];
    const requests = schemas.map((jsonSchema) => generateRequest({ jsonSchema, maxTokens: 200, temperature: 1 }));
    const texts = (await Promise.all(requests.map((request) => generated(engine(), request)))).map(({ text }) => text);
    expect(texts.slice(0, 2)).toEqual(['"one"', '"two"']);
    expect(['true', 'false']).toContain(texts[2]);
    expect(texts[3]).toMatch(/^\{"grade"/);
  });

  test.each([
    ['a keyword that is not enforced', { type: 'array', uniqueItems: true }, '`uniqueItems`'],
    ['a schema that never ends', { $ref: '#' }, 'without end'],
  ])('refuses %s', async (_, jsonSchema, message) => {
    await expect(generated(engine(), generateRequest({ jsonSchema }))).rejects.toMatchObject({
      kind: 'schema',
      message: expect.stringContaining(message),
    });
  });
}

function penalties(engine: () => InferenceEngine): void {
  test.each([
    [{}, 'aaaa'],
    [{ presencePenalty: 1 }, 'abaa'],
    [{ frequencyPenalty: 1 }, 'abab'],
    [{ frequencyPenalty: 1, topLogprobs: 0 }, 'abab'],
    [{ frequencyPenalty: 1, presencePenalty: -1 }, 'aabb'],
  ])('%j makes it write %s', async (changes, expected) => {
    const { text } = await generated(engine(), generateRequest({ maxTokens: 4, ...changes }));
    expect(text).toBe(expected);
  });

  test('are refused beyond what OpenAI takes', async () => {
    for (const changes of [{ presencePenalty: 2.1 }, { frequencyPenalty: Number.NaN }]) {
      await expect(generated(engine(), generateRequest(changes))).rejects.toMatchObject({ kind: 'invalid' });
    }
  });
}

function endlessText(engine: () => InferenceEngine): void {
  test('stops at the wanted number of tokens', async () => {
    const { text, end } = await generated(engine(), generateRequest({ maxTokens: 12 }));
    expect(text).toBe('x y😀x y😀');
    expect(end).toMatchObject({ finishReason: 'length', usage: { outputTokens: 12 } });
  });

  test('never gives out half a character', async () => {
    const { pieces } = await generated(engine(), generateRequest({ maxTokens: 60 }));
    expect(pieces.some((piece) => /[\p{Surrogate}\uFFFD]/u.test(piece))).toBe(false);
    expect(pieces.filter((piece) => piece.includes('😀')).length).toBe(10);
  });

  test('stops before a stop string, even one that spans tokens', async () => {
    const { text, end } = await generated(engine(), generateRequest({ stop: ['😀x y😀x', 'never'] }));
    expect(text).toBe('x y');
    expect(end.finishReason).toBe('stop');
  });

  test('ends with length where the context ends', async () => {
    const { end } = await generated(engine(), generateRequest({ maxTokens: 10_000 }));
    expect(end.finishReason).toBe('length');
    expect(end.usage.promptTokens + end.usage.cachedTokens + end.usage.outputTokens).toBe(256);
  });

  test('ends with an AbortError while it writes, and is ready for the next request', async () => {
    const controller = new AbortController();
    const reading = (async () => {
      for await (const _ of engine().generate(generateRequest({ maxTokens: 200, signal: controller.signal }))) {
        controller.abort();
      }
    })();
    await expect(reading).rejects.toMatchObject({ name: 'AbortError' });
    expect((await generated(engine(), generateRequest({ maxTokens: 6 }))).text).toBe('x y😀');
  });

  test('takes a reader who leaves as the end of the request', async () => {
    for await (const _ of engine().generate(generateRequest({ maxTokens: 200 }))) break;
    expect((await generated(engine(), generateRequest({ maxTokens: 6 }))).text).toBe('x y😀');
  });

  test('does nothing for a request that was cancelled before', async () => {
    const signal = AbortSignal.abort();
    await expect(generated(engine(), generateRequest({ signal }))).rejects.toMatchObject({ name: 'AbortError' });
    const request = scoreRequest([untrusted('x')], single('a', 'b'), { signal });
    await expect(engine().score(request)).rejects.toMatchObject({ name: 'AbortError' });
  });
}

function caching(engine: () => InferenceEngine): void {
  const shared = 'the user said that the answer is good enough '.repeat(2);
  const ask = (beginning: string) =>
    scoreRequest([untrusted(`${beginning}${shared}\n`)], single('a', 'b', 'the', ' y'));

  test('notices what was said first', async () => {
    const one = await chances(engine(), ask('x'));
    const other = await chances(engine(), ask('answer'));
    expect(Math.abs((one[0] ?? 0) - (other[0] ?? 0))).toBeGreaterThan(1e-3);
  });

  test('keeps a common prefix without changing a score', async () => {
    const longer = scoreRequest([untrusted(`q${shared}\n`), untrusted(shared)], single('a', 'b'));
    const cold = await engine().score(ask('q'));
    await engine().score(longer);
    await engine().score(ask('z'));
    const warm = await engine().score(ask('q'));
    expect(cold.usage.cachedTokens).toBe(0);
    expect(warm.usage.cachedTokens).toBeGreaterThan(20);
    expect(warm.usage.promptTokens).toBeLessThan(cold.usage.promptTokens);
    expectClose(warm.logProbabilities, cold.logProbabilities);
  });

  test('keeps what a private owner left for that owner alone', async () => {
    const cached = async (privateTo: string | undefined) => {
      const request = scoreRequest(
        [untrusted(`p${shared}`)],
        single('a', 'b'),
        privateTo === undefined ? {} : { privateTo },
      );
      return (await engine().score(request)).usage.cachedTokens;
    };
    await engine().score(ask('q'));
    expect(await cached('team-a')).toBe(0);
    expect(await cached('team-a')).toBeGreaterThan(20);
    expect(await cached('team-b')).toBe(0);
    expect(await cached(undefined)).toBe(0);
    // What anybody may use, a private owner may use too.
    expect(await cached('team-a')).toBeGreaterThan(20);
  });

  test('lets what anybody may use outlive the private runs that used it', async () => {
    const beginning = `b${shared.repeat(2)}`;
    await engine().score(ask(beginning));
    for (const privateTo of ['team-a', 'team-b', 'team-c']) await engine().score({ ...ask(beginning), privateTo });
    const { usage } = await engine().score(ask(`${beginning}q`));
    expect(usage.cachedTokens).toBeGreaterThan(40);
  });

  test('writes the same for the same seed, cold and warm', async () => {
    const request = generateRequest({
      messages: [{ role: 'user', content: `w${shared}` }],
      temperature: 1.5,
      seed: 11,
      maxTokens: 40,
    });
    const cold = await generated(engine(), request);
    const warm = await generated(engine(), request);
    expect(warm.end.usage.cachedTokens).toBeGreaterThan(cold.end.usage.cachedTokens);
    expect(warm.text).toBe(cold.text);
  });

  test('serves requests side by side without mixing them', async () => {
    const requests = ['m', 'n'].map((letter) =>
      generateRequest({ messages: [{ role: 'user', content: letter + shared }], temperature: 1.5, seed: 5 }),
    );
    const alone = [];
    for (const request of requests) alone.push((await generated(engine(), request)).text);
    const together = await Promise.all(requests.map((request) => generated(engine(), request)));
    expect(together.map(({ text }) => text)).toEqual(alone);
  });

  test('stops within a prompt when it is cancelled there', async () => {
    const controller = new AbortController();
    const messages = [{ role: 'user' as const, content: 'k'.repeat(3_500) }];
    const reading = generated(engine(), generateRequest({ messages, signal: controller.signal }));
    setTimeout(() => controller.abort(), 5);
    await expect(reading).rejects.toMatchObject({ name: 'AbortError' });
    const again = await generated(engine(), generateRequest({ messages, maxTokens: 1 }));
    expect(again.end.usage.promptTokens).toBeGreaterThan(1_000);
  });
}

const instructions = 'the user said that the answer is good enough '.repeat(20);

function sharing(engine: () => InferenceEngine): void {
  const runs = (letters: string, changes: Partial<GenerateRequest> = {}) =>
    [...letters].map((letter) =>
      generateRequest({
        messages: [
          { role: 'system', content: letters + instructions },
          { role: 'user', content: letter },
        ],
        maxTokens: 8,
        temperature: 1,
        ...changes,
      }),
    );
  const all = (requests: GenerateRequest[]) => Promise.all(requests.map((request) => generated(engine(), request)));
  const sum = (results: readonly Generated[], of: (usage: EngineUsage) => number) =>
    results.reduce((total, { end }) => total + of(end.usage), 0);

  test('computes once what runs that start together have in common', async () => {
    const results = await all(runs('abcdef'));
    const [first = 0] = results.map(({ end }) => end.usage.promptTokens);
    expect(sum(results, (usage) => usage.promptTokens)).toBeLessThan(first * 1.5);
    expect(sum(results, (usage) => usage.cachedTokens)).toBeGreaterThan(first * 4);
  });

  test('writes from a copied beginning what it writes from its own', async () => {
    const requests = runs('ghij');
    const together = await all(requests);
    const alone = [];
    for (const request of requests) {
      await all(runs('zy', { privateTo: 'nobody' }));
      alone.push((await generated(engine(), { ...request, privateTo: `cold ${alone.length}` })).text);
    }
    expect(together.map(({ text }) => text)).toEqual(alone);
  });

  test('has another run do the work when the first one is cancelled', async () => {
    const controller = new AbortController();
    const [first, ...others] = runs('klm');
    if (first === undefined) throw new Error('there are three');
    const cancelled = generated(engine(), { ...first, signal: controller.signal });
    const rest = all(others);
    setTimeout(() => controller.abort(), 5);
    await expect(cancelled).rejects.toMatchObject({ name: 'AbortError' });
    expect((await rest).length).toBe(2);
  });

  test('gives up to wait for the beginning when it is cancelled itself', async () => {
    const controller = new AbortController();
    const [first, second] = runs('no');
    if (first === undefined || second === undefined) throw new Error('there are two');
    const working = generated(engine(), first);
    const cancelled = generated(engine(), { ...second, signal: controller.signal });
    setTimeout(() => controller.abort(), 5);
    await expect(cancelled).rejects.toMatchObject({ name: 'AbortError' });
    expect((await working).end.usage.outputTokens).toBeGreaterThan(0);
  });

  test('shares nothing of a private run, whoever starts beside it', async () => {
    const [first, second] = runs('pq', { privateTo: 'team-a' });
    if (first === undefined || second === undefined) throw new Error('there are two');
    const results = await all([first, { ...second, privateTo: 'team-b' }]);
    // The few tokens before the instructions are the same in every prompt.
    const templateTokens = 5;
    expect(Math.max(...results.map(({ end }) => end.usage.cachedTokens))).toBeLessThan(templateTokens);
    expect((await all(runs('pq')))[0]?.end.usage.cachedTokens).toBeLessThan(templateTokens);
  });

  test('brings a conversation back that had to make room', async () => {
    const first = runs('r');
    await all(first);
    for (const letters of ['s', 't', 'u', 'v', 'w', 'x']) await all(runs(`${letters}${letters}`));
    const again = await all(first);
    expect(again[0]?.end.usage.promptTokens).toBeLessThan(10);
  });

  test('ends a request at its deadline', async () => {
    const [request] = runs('z', { deadlineMs: 5, maxTokens: 3_000, messages: [{ role: 'user', content: 'k' }] });
    if (request === undefined) throw new Error('there is one');
    await expect(generated(engine(), request)).rejects.toMatchObject({ kind: 'busy' });
  });
}

function withoutSnapshots(engine: () => InferenceEngine): void {
  test('serves the same, and computes what it cannot copy', async () => {
    const ask = (letter: string) =>
      generated(engine(), generateRequest({ messages: [{ role: 'user', content: instructions + letter }] }));
    const results = await Promise.all(['a', 'b', 'c'].map(ask));
    expect(results.every(({ end }) => end.usage.outputTokens > 0)).toBe(true);
    expect(results[1]?.end.usage.cachedTokens).toBe(0);
  });
}

function judging(engine: () => InferenceEngine): void {
  const cards = ['the answer', 'search', 'good enough user'].map((text) => [untrusted(text)]);
  const request = (changes: Partial<JudgeRequest> = {}): JudgeRequest => ({
    prompt: [untrusted('the user said'), markup('\n')],
    questions: cards,
    answers: single('a', 'b', 'the', ' y'),
    signal: new AbortController().signal,
    ...changes,
  });

  test('answers each question as if it were the only one', async () => {
    const { logProbabilities, usage } = await engine().judge(request());
    for (const [index, card] of cards.entries()) {
      const alone = await engine().score(scoreRequest([...request().prompt, ...card], single('a', 'b', 'the', ' y')));
      expectClose((logProbabilities[index] ?? []).map(Math.exp), alone.logProbabilities.map(Math.exp));
    }
    expect(usage.promptTokens).toBeLessThan(60);
  });

  test('reads the shared prompt once', async () => {
    const prompt = [untrusted('user answer '.repeat(10)), markup('\n')];
    const once = (await engine().judge(request({ prompt, questions: cards.slice(0, 1) }))).usage.promptTokens;
    const { usage } = await engine().judge(request({ prompt: [untrusted('z'), ...prompt], questions: cards }));
    expect(usage.promptTokens).toBeLessThan(once * 2);
  });

  test.each([
    ['no questions', { questions: [] }],
    ['an empty question', { questions: [[]] }],
    ['no answers', { answers: [] }],
    ['answers that are equal', { answers: single('a', 'a') }],
    ['an empty prompt', { prompt: [] }],
    ['a deadline of no time', { deadlineMs: 0 }],
  ])('refuses %s', async (_, changes: Partial<JudgeRequest>) => {
    await expect(engine().judge(request(changes))).rejects.toMatchObject({ kind: 'invalid' });
  });

  test('refuses what does not fit', async () => {
    const questions = [[untrusted('z'.repeat(1_024))]];
    await expect(engine().judge(request({ questions }))).rejects.toMatchObject({ kind: 'context_full' });
  });
}

function waiting(engine: () => InferenceEngine): void {
  test('turns a request away when the line is full, and serves the others in order', async () => {
    const holder = new AbortController();
    const held = engine()
      .generate(generateRequest({ maxTokens: 16_000, signal: holder.signal }))
      [Symbol.asyncIterator]();
    await held.next();
    const line = Array.from({ length: 16 }, () => generated(engine(), generateRequest({ maxTokens: 6 })));
    await expect(generated(engine(), generateRequest())).rejects.toMatchObject({ kind: 'busy' });
    holder.abort();
    await expect(drain(held)).rejects.toMatchObject({ name: 'AbortError' });
    expect((await Promise.all(line)).map(({ text }) => text)).toEqual(line.map(() => 'x y😀'));
  });

  test('lets a waiting request leave the line', async () => {
    const holder = new AbortController();
    const held = engine()
      .generate(generateRequest({ maxTokens: 16_000, signal: holder.signal }))
      [Symbol.asyncIterator]();
    await held.next();
    const leaver = new AbortController();
    const waiter = generated(engine(), generateRequest({ signal: leaver.signal }));
    setTimeout(() => leaver.abort(), 5);
    await expect(waiter).rejects.toMatchObject({ name: 'AbortError' });
    holder.abort();
    await expect(drain(held)).rejects.toMatchObject({ name: 'AbortError' });
    expect((await generated(engine(), generateRequest({ maxTokens: 6 }))).text).toBe('x y😀');
  });
}

async function drain(iterator: AsyncIterator<unknown>): Promise<void> {
  for (let result = await iterator.next(); !result.done; ) result = await iterator.next();
}

function brokenTemplate(engine: () => InferenceEngine): void {
  test('leaves scoring as it is, and says why there is no text', async () => {
    expectClose(await chances(engine(), scoreRequest([untrusted('a')], single('x', 'y'))), [0.5, 0.5]);
    await expect(generated(engine(), generateRequest())).rejects.toMatchObject({
      kind: 'unavailable',
      message: 'the chat template in the weights file cannot be used',
    });
  });
}

function closing(start: Start): void {
  test('ends what is running and refuses what comes later', async () => {
    const file = writeModel(endless());
    const engine = await start(engineOptions(file.path, { contextTokens: 16_384 }));
    const running = engine.generate(generateRequest({ maxTokens: 16_000 }))[Symbol.asyncIterator]();
    await running.next();
    const [reading] = await Promise.allSettled([drain(running), engine.close()]);
    expect(reading).toMatchObject({ status: 'rejected', reason: { kind: 'unavailable' } });
    await expect(generated(engine, generateRequest())).rejects.toMatchObject({ kind: 'unavailable' });
    await engine.close();
    file.remove();
  });

  test.each([
    ['no threads', { threads: 0 }],
    ['too many sequences', { sequences: 300 }],
    ['half a token', { contextTokens: 100.5 }],
    ['no prompt at all in a chunk', { prefillChunkTokens: 0 }],
  ])('refuses to start with %s', async (_, changes) => {
    await expect(start(engineOptions('/nowhere.gguf', changes))).rejects.toMatchObject({ kind: 'invalid' });
  });
}
