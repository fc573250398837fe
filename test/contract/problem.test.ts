import { expect, test } from 'vitest';
import { chatMessage } from '../../src/contract/chat.ts';
import { problemFromChat } from '../../src/contract/problem.ts';

const chat = (...messages: unknown[]) => problemFromChat(messages.map((message) => chatMessage.parse(message)));
const user = (content: unknown) => ({ role: 'user', content });

test('the last user message is the problem, all else is conversation', () => {
  const system = { role: 'system', content: 'Be brief.' };
  const assistant = { role: 'assistant', content: 'Hello!' };
  expect(chat(system, user('Hi'), assistant, user('How far is the moon?'))).toEqual({
    problem: 'How far is the moon?',
    conversation: 'System: Be brief.\nUser: Hi\nAssistant: Hello!',
  });
});

test('a single message has no conversation', () => {
  expect(chat(user('Hi'))).toEqual({ problem: 'Hi', conversation: '' });
});

test('tool calls and results after the problem are part of the conversation', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city":"Bonn"}' } };
  const { problem, conversation } = chat(
    user('Rain?'),
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'c1', content: 'sunny' },
  );
  expect(problem).toBe('Rain?');
  expect(conversation).toBe('Assistant: [called weather({"city":"Bonn"})]\nTool: sunny');
});

test('without a user the last message is the problem', () => {
  expect(chat({ role: 'system', content: 'A' }, { role: 'developer', content: 'B' })).toEqual({
    problem: 'B',
    conversation: 'System: A',
  });
});

test('no message at all is an empty problem', () => {
  expect(chat()).toEqual({ problem: '', conversation: '' });
});

test.each([
  [{ type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(4096)}` } }, '[image image/png, 3 KB]'],
  [{ type: 'image_url', image_url: { url: 'https://example.org/secret.png' } }, '[image]'],
  [{ type: 'input_image', image_url: 'data:image/jpeg;base64,AAAA' }, '[image image/jpeg, 1 KB]'],
  [{ type: 'input_audio', input_audio: { data: 'A'.repeat(8192), format: 'wav' } }, '[audio wav, 6 KB]'],
  [
    { type: 'file', file: { filename: 'report.pdf', file_data: 'data:application/pdf;base64,AAAA' } },
    '[file report.pdf, 1 KB]',
  ],
  [{ type: 'file', file: { file_id: 'file-1' } }, '[file]'],
  [{ type: 'text' }, '[text]'],
  [{ type: 'file', file: null }, '[file]'],
])('a part that is no text becomes a placeholder: %j', (part, expected) => {
  expect(chat(user([{ type: 'text', text: 'See' }, part])).problem).toBe(`See\n${expected}`);
});

test('lone surrogates become U+FFFD and emoji stay', () => {
  expect(chat(user('\ud83d 😀 \ude00'), user('x\udc00'))).toEqual({
    problem: 'x\ufffd',
    conversation: 'User: \ufffd 😀 \ufffd',
  });
});
