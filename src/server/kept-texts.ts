import { type ChatMessage, textOf } from '../contract/chat.ts';
import { isPrivate } from '../preferences/privacy.ts';
import type { RunRecord } from '../router/run.ts';
import type { Run } from './run.ts';

/** What is kept of a run's texts: words only, images and files as placeholders. */
export interface Conversation {
  readonly messages: readonly { readonly role: ChatMessage['role']; readonly content: string }[];
  readonly answer: string;
}

/** Keeps request and answer where the operator wants that; of a private run, or one that became private, nothing. */
export function keepTexts({ parts, spec }: Run, record: RunRecord, answer: string): void {
  if (!parts.keepTexts || isPrivate(record.privacy)) return;
  const messages = spec.messages.map((message) => ({ role: message.role, content: textOf(message) }));
  const conversation: Conversation = { messages, answer };
  parts.runs.saveConversation(record.runId, JSON.stringify(conversation));
}
