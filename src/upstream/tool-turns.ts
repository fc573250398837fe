import { createHash } from 'node:crypto';
import type { ChatMessage, ContentPart } from '../contract/chat.ts';

/**
 * Brings calls and results of a history into the one form that strict upstreams take: each assistant turn is followed
 * by one result a call, in the order of the calls. Results without a call go, calls without a result get a note, and
 * images, which a tool message cannot hold, follow in a user message.
 */
export function repairToolTurns(messages: readonly ChatMessage[]): ChatMessage[] {
  // A stack an id, the earliest on top, because some clients use the same id again in a later turn.
  const results = new Map<string, ChatMessage[]>();
  for (const message of messages.filter(({ role }) => role === 'tool').toReversed()) {
    const id = message.tool_call_id ?? '';
    const stack = results.get(id);
    if (stack) stack.push(message);
    else results.set(id, [message]);
  }
  return messages.flatMap((message) => {
    if (message.role === 'tool') return [];
    const answers = (message.tool_calls ?? []).map(({ id }) => results.get(id)?.pop() ?? missingResult(id));
    return [message, ...answers.map(withoutImages), ...imagesOf(answers)];
  });
}

const missingResult = (id: string): ChatMessage => ({
  role: 'tool',
  tool_call_id: id,
  content: 'No result was given.',
});

const isText = (part: ContentPart): boolean => part.type === 'text';

function withoutImages(result: ChatMessage): ChatMessage {
  if (!Array.isArray(result.content) || result.content.every(isText)) return result;
  return { ...result, content: result.content.filter(isText) };
}

function imagesOf(results: readonly ChatMessage[]): ChatMessage[] {
  const images = results.flatMap(({ content }) =>
    (Array.isArray(content) ? content : []).filter((part) => !isText(part)),
  );
  return images.length > 0 ? [{ role: 'user', content: images }] : [];
}

/** For upstreams that take only call ids of nine letters and digits. The same id always becomes the same one. */
export function withShortCallIds(message: ChatMessage): ChatMessage {
  const { tool_calls: calls, tool_call_id: answered } = message;
  return {
    ...message,
    ...(calls ? { tool_calls: calls.map((call) => ({ ...call, id: shortId(call.id) })) } : {}),
    ...(answered ? { tool_call_id: shortId(answered) } : {}),
  };
}

const shortId = (id: string): string =>
  /^[A-Za-z0-9]{9}$/.test(id) ? id : createHash('sha256').update(id).digest('hex').slice(0, 9);
