import { expect, test } from 'vitest';
import { prepareChat } from '../../src/server/chat-request.ts';
import { parseChatRequest } from '../../src/server/wire.ts';
import { repairToolTurns } from '../../src/upstream/tool-turns.ts';

const many = 60_000;
const picture = { type: 'image_url', image_url: { url: 'x' } };
const result = { role: 'tool', tool_call_id: 'call_1', content: [picture] };

test.each([
  ['a picture in each of many tool results', Array.from({ length: many }, () => result)],
  ['many pictures in one tool result', [{ ...result, content: Array.from({ length: many }, () => ({ ...picture })) }]],
])('%s takes time in proportion, so that no request holds up the others', (_, results) => {
  const messages = [{ role: 'user', content: 'look' }, ...results, { role: 'user', content: 'well?' }];
  const { messages: prepared } = prepareChat(parseChatRequest({ model: 'orchestra', messages }));
  expect(prepared).toHaveLength(messages.length + 1);
  expect(prepared.at(-2)?.content).toHaveLength(many);
  expect(repairToolTurns(prepared)).toHaveLength(3);
});
