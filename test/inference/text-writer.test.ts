import type { Token } from 'node-llama-cpp';
import { expect, test } from 'vitest';
import { LogprobRecorder } from '../../src/inference/logprobs.ts';
import type { Sequence } from '../../src/inference/sequence.ts';
import { TextWriter } from '../../src/inference/text-writer.ts';
import type { ModelTokens } from '../../src/inference/tokens.ts';
import { ToolCallReader } from '../../src/inference/tool-call-reader.ts';

/** What is sent, and the tokens whose log probabilities come beside it, of a model that writes these tokens. */
async function sent(written: readonly string[], { inCall = false, stop = [] as string[] } = {}) {
  const spelled = (ids: readonly Token[]) => ids.map((id) => written[id] ?? '').join('');
  const tokens = {
    ofSegments: () => [],
    toText: spelled,
    bytesOf: (id: Token) => Buffer.from(spelled([id])),
  } as unknown as ModelTokens;
  const sequence = {
    async *sampleOpenly() {
      for (const index of written.keys()) yield { token: index as Token, chances: new Map([[index as Token, 1]]) };
    },
  } as unknown as Sequence;
  const recorder = new LogprobRecorder(0, tokens);
  const writer = new TextWriter(stop, tokens, new ToolCallReader(inCall), recorder);
  const events = [];
  const sampling = { temperature: 1, topP: 1, seed: 1 };
  for await (const token of recorder.sample(sequence, [], sampling, new AbortController().signal)) {
    events.push(...writer.push(token));
    if (writer.stopped) break;
  }
  events.push(...writer.flush());
  return events.flatMap((event) =>
    event.type === 'text' ? [[event.text, ...(event.logprobs ?? []).map(({ token }) => token)]] : [],
  );
}

const call = ['<tool_call>', '{"name": "f", ', '"arguments": {', '}}', '</tool_call>'];

test('text after a call has the log probabilities of its own tokens', async () => {
  expect(await sent(['so', ':', '\n', ...call, ' that', ' is all'])).toEqual([
    ['so', 'so'],
    [':', ':'],
    [' that', ' that'],
    [' is all', ' is all'],
  ]);
  expect(await sent([...call.slice(1), 'that', ...call, 'all'], { inCall: true })).toEqual([
    ['that', 'that'],
    ['all', 'all'],
  ]);
});

test('a token that is text in part keeps its log probability', async () => {
  expect(await sent(['so', ':\n', ...call.slice(0, -1), '</tool_call> that', ' is'])).toEqual([
    ['so', 'so'],
    [':'],
    [' that', ':\n', '</tool_call> that'],
    [' is', ' is'],
  ]);
});

test('a call that is none keeps the log probabilities of its tokens', async () => {
  const none = await sent(['x', ' ', '<tool_call>', 'weather', '</tool_call>', ' now']);
  expect(none).toEqual([
    ['x', 'x'],
    ['<tool_call>weather</tool_call>', '<tool_call>', 'weather', '</tool_call>'],
    [' now', ' now'],
  ]);
  expect(await sent(['weather', '</tool_call>', ' now'], { inCall: true })).toEqual([
    ['<tool_call>weather</tool_call>', 'weather', '</tool_call>'],
    [' now', ' now'],
  ]);
});

test('text held back for a stop string over a call comes with its own log probabilities', async () => {
  expect(await sent(['a', '#', ...call, '?', 'b'], { stop: ['#!'] })).toEqual([
    ['a', 'a'],
    ['#?', '#', '?'],
    ['b', 'b'],
  ]);
});
