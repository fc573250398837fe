import { expect, test } from 'vitest';
import type { ChatMessage } from '../../src/contract/chat.ts';
import { dialectFor } from '../../src/upstream/dialect.ts';
import { openAiBody } from '../../src/upstream/openai-request.ts';

const calls = (...ids: string[]): ChatMessage => ({
  role: 'assistant',
  content: null,
  tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })),
});
const result = (id: string, content: ChatMessage['content']): ChatMessage => ({
  role: 'tool',
  tool_call_id: id,
  content,
});
const user: ChatMessage = { role: 'user', content: 'go on' };

const sent = (messages: ChatMessage[], baseUrl = 'http://127.0.0.1:1/v1') =>
  openAiBody({ model: 'm', messages, maxOutputTokens: 1, options: {} }, dialectFor(baseUrl)).messages;

test('a clean history stays as it is', () => {
  const history = [user, calls('k1', 'k2'), result('k1', '1'), result('k2', '2'), user];
  expect(sent(history)).toEqual(history);
});

test('results follow their calls in order; strays go and gaps are named', () => {
  expect(sent([result('k9', 'stray'), calls('k1', 'k2', 'k3'), result('k2', '2'), user, result('k1', '1')])).toEqual([
    calls('k1', 'k2', 'k3'),
    result('k1', '1'),
    result('k2', '2'),
    result('k3', 'No result was given.'),
    user,
  ]);
});

test('an id that is used again keeps each turn its own result', () => {
  const history = [calls('k'), result('k', 'first'), calls('k'), result('k', 'second')];
  expect(sent(history)).toEqual(history);
});

test('images in a result move into a user message after it', () => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } };
  const shown = result('k1', [{ type: 'text', text: 'shot' }, image]);
  expect(sent([calls('k1', 'k2'), shown, result('k2', '2')])).toEqual([
    calls('k1', 'k2'),
    result('k1', 'shot'),
    result('k2', '2'),
    { role: 'user', content: [image] },
  ]);
});

test('call ids are shortened alike in calls and results, only where that is demanded', () => {
  const history = [calls('call_123456789012345678901234', 'abcDEF123'), result('call_123456789012345678901234', '1')];
  const [asked, first] = sent(history, 'https://api.mistral.ai/v1') as ChatMessage[];
  const ids = asked?.tool_calls?.map(({ id }) => id) ?? [];
  expect(ids).toEqual([expect.stringMatching(/^[A-Za-z0-9]{9}$/), 'abcDEF123']);
  expect(first?.tool_call_id).toBe(ids[0]);
});

test("the dialect is chosen by host, and look-alikes are not OpenAI's", () => {
  const field = (url: string) => dialectFor(url).maxTokensField;
  expect(field('https://api.openai.com/v1')).toBe('max_completion_tokens');
  expect(field('https://mine.openai.azure.com/openai/v1')).toBe('max_completion_tokens');
  expect(field('https://api.openai.com.example.org/v1')).toBe('max_tokens');
  expect(field('http://notopenai.com/v1')).toBe('max_tokens');
});
