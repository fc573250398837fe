import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadContract } from '../../src/contract/load.ts';
import type { InferenceEngine } from '../../src/inference/engine.ts';
import { startEngine } from '../../src/inference/start-engine.ts';
import { createAnswerTool } from '../../src/tools/answer.ts';
import { createLocalExpert } from '../../src/tools/local-expert.ts';
import { tinyModel, writeModel } from '../support/gguf/tiny-model.ts';
import { aSlot } from '../support/slots.ts';
import { executed, inputOf } from './tool-input.ts';

const contract = loadContract('slots-2');
const words = ['Good', ' day', ' again'];
const model = writeModel(
  tinyModel({ words, script: { '\n': 'Good', Good: ' day', ' day': ' again', ' again': ' day' } }),
);
let engine: InferenceEngine;

beforeAll(async () => {
  const size = { contextTokens: 512, sequences: 1, prefillChunkTokens: 64 };
  engine = await startEngine({ modelPath: model.path, device: 'cpu', threads: 1, ...size });
}, 60_000);

afterAll(async () => {
  await engine.close();
  model.remove();
});

const tool = () =>
  createAnswerTool({
    slot: aSlot({ id: 'answer-3', contextTokens: 512 }),
    contract,
    expert: createLocalExpert(engine, { temperature: 0.7, topP: 0.95, frequencyPenalty: 0 }),
  });

test('a GGUF answers as an expert, up to its tokens', async () => {
  const { deltas, outcome } = await executed(
    tool(),
    inputOf('Hi', { maxOutputTokens: 4, answerOptions: { temperature: 0 } }),
  );
  expect(deltas.map((delta) => (delta.type === 'text' ? delta.text : '')).join('')).toBe('Good day again day');
  expect(outcome).toMatchObject({
    observation: { kind: 'answer', text: 'Good day again day' },
    finishReason: 'length',
    usage: [{ meter: 'answer-3', usage: { outputTokens: 4, calls: 1 } }],
  });
  expect(outcome.usage[0]?.usage.inputTokens).toBeGreaterThan(0);
  expect(outcome.usage[0]?.usage.durationMs).toBeGreaterThan(0);
  expect(outcome.usage[0]?.estimated).toBeUndefined();
});

test('a chat that is too long for it is a failure of that kind', async () => {
  const { outcome } = await executed(tool(), inputOf('word '.repeat(2_000)));
  expect(outcome.observation).toMatchObject({
    kind: 'failed',
    retryable: false,
    failure: 'context_length_exceeded',
    reason: 'The request is too long for the local model.',
  });
});

test('a schema that it cannot be held to is told as that, with the place for the client alone', async () => {
  const schema = { type: 'object', properties: { cities: { type: 'array', uniqueItems: true } } };
  const response_format = { type: 'json_schema', json_schema: { name: 'cities', schema } };
  const { outcome } = await executed(tool(), inputOf('Hi', { answerOptions: { response_format } }));
  expect(outcome).toMatchObject({
    observation: { failure: 'schema_refused', reason: 'The local model cannot be held to this schema.' },
    schemaReason: expect.stringContaining('#/properties/cities: `uniqueItems`'),
  });
});

test('tools beside a JSON schema are refused as that', async () => {
  const answerOptions = {
    tools: [{ type: 'function', function: { name: 'weather' } }],
    response_format: { type: 'json_object' },
  };
  const { outcome } = await executed(tool(), inputOf('Hi', { answerOptions }));
  expect(outcome).toMatchObject({
    observation: { failure: 'schema_refused', reason: 'The local model cannot be held to this schema.' },
    schemaReason: 'It takes tools or a schema in one request, not both: leave one of them out.',
  });
});

test('a reader who leaves frees the engine for the next', async () => {
  const leaving = new AbortController();
  const execution = tool().execute(inputOf('Hi', { maxOutputTokens: 300, signal: leaving.signal }));
  expect((await execution.next()).value).toMatchObject({ type: 'text' });
  leaving.abort();
  const rest = async () => {
    while (!(await execution.next()).done);
  };
  await expect(rest()).rejects.toMatchObject({ name: 'AbortError' });
  const { outcome } = await executed(tool(), inputOf('Hi', { maxOutputTokens: 2 }));
  expect(outcome.observation.kind).toBe('answer');
});
