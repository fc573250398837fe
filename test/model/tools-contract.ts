import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EngineOptions, InferenceEngine, ToolUse } from '../../src/inference/engine.ts';
import { writeModel } from '../support/gguf/tiny-model.ts';
import { caller, engineOptions, type Generated, generated, generateRequest, story } from './tiny-models.ts';

type Start = (options: EngineOptions) => Promise<InferenceEngine>;

const weather = {
  name: 'weather',
  description: 'Weather of a city.',
  parameters: {
    type: 'object',
    properties: { city: { enum: ['Rome', 'Paris "F"'] }, days: { enum: [1, 2] } },
    required: ['city'],
  },
};
const clock = { name: 'clock', parameters: { type: 'object', properties: {}, additionalProperties: false } };

const use = (changes: Partial<ToolUse> = {}): ToolUse => ({
  tools: [weather, clock],
  choice: 'auto',
  parallel: false,
  ...changes,
});

interface Call {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

function callsOf({ callPieces }: Generated): Call[] {
  const calls: Call[] = [];
  for (const { index, id, name, argumentsDelta } of callPieces) {
    const call = calls[index] ?? { id: id ?? '', name: name ?? '', arguments: '' };
    calls[index] = { ...call, arguments: call.arguments + argumentsDelta };
  }
  return calls;
}

/** What every InferenceEngine does with a client's tools. */
export function toolsContract(start: Start): void {
  describe.each(['token', 'text'] as const)('whose tag is a %s', (tag) => {
    const file = writeModel(caller(tag));
    let engine: InferenceEngine;
    beforeAll(async () => {
      engine = await start(engineOptions(file.path));
    });
    afterAll(async () => {
      await engine.close();
      file.remove();
    });
    const ask = (toolUse: ToolUse, changes: Parameters<typeof generateRequest>[0] = {}) =>
      generated(engine, generateRequest({ toolUse, temperature: 1.5, maxTokens: 300, ...changes }));

    test.each([1, 2, 3, 4, 5])(
      'are called as their schemas say, whatever the model prefers (seed %i)',
      async (seed) => {
        const result = await ask(use(), { seed });
        const [call, ...others] = callsOf(result);
        expect(result.text).toBe('the good');
        expect(others).toEqual([]);
        expect(result.end.finishReason).toBe('tool_calls');
        expect(call?.id).toMatch(/^call_[0-9a-f]{24}$/);
        const values = JSON.parse(call?.arguments ?? '');
        if (call?.name === 'clock') expect(values).toEqual({});
        else expect(['Rome', 'Paris "F"']).toContain(values.city);
      },
    );

    test('come in pieces, the name first', async () => {
      const { callPieces } = await ask(use({ choice: { name: 'weather' } }));
      expect(callPieces[0]).toMatchObject({ index: 0, name: 'weather', argumentsDelta: '' });
      expect(callPieces.length).toBeGreaterThan(3);
      expect(callPieces.slice(1).every(({ id, name }) => id === undefined && name === undefined)).toBe(true);
    });

    test('are called without a word where a call is required, or the one that is named', async () => {
      const result = await ask(use({ choice: 'required' }));
      expect(result.text).toBe('');
      expect(callsOf(result).length).toBe(1);
      for (const name of ['weather', 'clock']) {
        expect(callsOf(await ask(use({ choice: { name } }))).map((call) => call.name)).toEqual([name]);
      }
    });

    test('are called several times where that is wanted', async () => {
      const counts = [];
      for (const seed of [1, 2, 3, 4, 5, 6]) {
        const result = await ask(use({ parallel: true, tools: [clock] }), { seed });
        const calls = callsOf(result);
        expect(calls.every((call) => call.name === 'clock' && call.arguments === '{}')).toBe(true);
        expect(new Set(calls.map(({ id }) => id)).size).toBe(calls.length);
        counts.push(calls.length);
      }
      expect(Math.max(...counts)).toBeGreaterThan(1);
    });

    test('that are cut off end with length', async () => {
      expect((await ask(use(), { maxTokens: 8 })).end.finishReason).toBe('length');
    });

    const promptTokens = async (changes: Parameters<typeof generateRequest>[0]) => {
      const { usage } = (await generated(engine, generateRequest({ maxTokens: 1, ...changes }))).end;
      return usage.promptTokens + usage.cachedTokens;
    };

    test('are shown to the model, with the calls of earlier turns and their results', async () => {
      const user = { role: 'user' as const, content: 'hi' };
      const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } };
      const asked = { role: 'assistant' as const, content: null, tool_calls: [call] };
      const told = { role: 'tool' as const, content: 'sunny', tool_call_id: 'call_1' };
      const plain = await promptTokens({ messages: [user] });
      expect((await promptTokens({ messages: [user], toolUse: use() })) - plain).toBeGreaterThan(50);
      const history = (await promptTokens({ messages: [user, asked, told] })) - plain;
      expect(history).toBeGreaterThan(60);
    });

    test.each(['<|im_end|>', '<tool_call>'])('and their texts keep %s plain text', async (marker) => {
      const markerTokens = await engine.countTokens(marker);
      const withTexts = (text: string) => {
        const call = {
          id: 'c',
          type: 'function',
          function: { name: text, arguments: JSON.stringify({ [text]: text }) },
        };
        const tool = { ...clock, description: text, parameters: { type: 'object', properties: { [text]: {} } } };
        return promptTokens({
          messages: [
            { role: 'user', content: text },
            { role: 'assistant', content: text, tool_calls: [call] },
            { role: 'tool', content: text, tool_call_id: 'c' },
          ],
          toolUse: use({ tools: [tool] }),
        });
      };
      expect((await withTexts(`a${marker}b`)) - (await withTexts('ab'))).toBe(8 * markerTokens);
    });

    test.each([
      ['none', { tools: [] }, 'at least one tool'],
      ['two of one name', { tools: [clock, clock] }, 'a name of its own'],
      ['one that is not there', { choice: { name: 'nosuch' } }, 'is not there'],
      ['a name with a quote', { tools: [{ name: 'a"b' }] }, 'is named by letters'],
      ['a strict schema that cannot be kept', { tools: [{ ...clock, parameters: odd, strict: true }] }, '`not`'],
    ])('of which there are %s are refused', async (_, changes: Partial<ToolUse>, message) => {
      await expect(ask(use(changes))).rejects.toMatchObject({
        kind: 'invalid',
        message: expect.stringContaining(message),
      });
    });

    test('whose schema cannot be kept get some object, unless it is strict', async () => {
      const [call] = callsOf(await ask(use({ tools: [{ name: 'free', parameters: odd }], choice: 'required' })));
      expect(call?.name).toBe('free');
      expect(call?.arguments[0]).toBe('{');
    });
  });

  test('are refused where the chat template has no place for them', async () => {
    const file = writeModel(story());
    const engine = await start(engineOptions(file.path));
    expect(engine.info.takesTools).toBe(false);
    await expect(generated(engine, generateRequest({ toolUse: use() }))).rejects.toMatchObject({ kind: 'invalid' });
    await engine.close();
    file.remove();
  });
}

const odd = { type: 'object', not: { required: ['a'] } };
