import { type ChatMessage, textOf } from './chat.ts';
import { wellFormed } from './code-points.ts';

export interface ChatProblem {
  readonly problem: string;
  /** All other turns as one text, oldest first; the renderer cuts it from the front. */
  readonly conversation: string;
}

/**
 * What a chat asks: its last user message (the last message where no user speaks); everything else, system text
 * included, is the conversation around it.
 */
export function problemFromChat(messages: readonly ChatMessage[]): ChatProblem {
  const lastUser = messages.findLastIndex(({ role }) => role === 'user');
  const asked = lastUser < 0 ? messages.length - 1 : lastUser;
  const question = messages[asked];
  return {
    problem: question === undefined ? '' : wellFormed(textOf(question)),
    conversation: wellFormed(
      messages
        .filter((_, index) => index !== asked)
        .map(turnText)
        .join('\n'),
    ),
  };
}

const speakers: Readonly<Record<ChatMessage['role'], string>> = {
  system: 'System',
  developer: 'System',
  user: 'User',
  assistant: 'Assistant',
  tool: 'Tool',
  function: 'Tool',
};

function turnText(message: ChatMessage): string {
  const calls = (message.tool_calls ?? []).map(
    (call) => `[called ${call.function?.name ?? call.type}(${call.function?.arguments ?? ''})]`,
  );
  const said = [textOf(message), ...calls].filter((text) => text !== '').join('\n');
  return `${speakers[message.role]}: ${said}`;
}
