import type { ChatMessage } from '../contract/chat.ts';
import type { ChatRequest } from './chat.ts';
import { type OpenAiDialect, roleFor } from './dialect.ts';
import { repairToolTurns, withShortCallIds } from './tool-turns.ts';

/** Fields that every server of this family knows. What changes the price or names the user is not among them. */
const commonFields = [
  'temperature',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'seed',
  'stop',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'reasoning_effort',
  'logit_bias',
];

/** Without tools, servers refuse these. */
const fieldsOfTools = ['tools', 'tool_choice', 'parallel_tool_calls'];

interface OpenAiBody {
  readonly model: string;
  readonly messages: readonly object[];
  readonly stream: true;
  readonly stream_options: { readonly include_usage: true };
  readonly [field: string]: unknown;
}

/** Our request in the upstream's dialect: always a stream, always bounded, always with usage. */
export function openAiBody(request: ChatRequest, dialect: OpenAiDialect): OpenAiBody {
  return {
    ...forwarded(request.options, dialect),
    model: request.model,
    messages: repairToolTurns(request.messages).map((message) => wireMessage(message, dialect)),
    [dialect.maxTokensField]: request.maxOutputTokens,
    stream: true,
    stream_options: { include_usage: true },
  };
}

function forwarded(options: Readonly<Record<string, unknown>>, dialect: OpenAiDialect): Record<string, unknown> {
  const hasTools = !isEmpty(options['tools']);
  const fields = [...commonFields, ...dialect.extraFields]
    .filter((field) => hasTools || !fieldsOfTools.includes(field))
    .filter((field) => !isEmpty(options[field]));
  return Object.fromEntries(fields.map((field) => [field, options[field]]));
}

/** `null` equals absent, and an empty list of tools or stops is refused by some. */
const isEmpty = (value: unknown): boolean =>
  value === null || value === undefined || (Array.isArray(value) && value.length === 0);

/** Keys that clients replay from earlier answers and strict servers refuse. */
const replayedKeys = [
  'reasoning',
  'reasoning_content',
  'reasoning_details',
  'thinking_blocks',
  'annotations',
  'audio',
  'refusal',
];

function wireMessage(message: ChatMessage, dialect: OpenAiDialect): object {
  const kept = Object.entries(dialect.shortCallIds ? withShortCallIds(message) : message).filter(
    ([key, value]) => !replayedKeys.includes(key) && (key === 'content' || !isEmpty(value)),
  );
  const thought = dialect.replaysReasoning ? thoughtOf(message) : {};
  return { ...Object.fromEntries(kept), role: roleFor(message.role, dialect), content: contentOf(message), ...thought };
}

/** As the client replays it, under either name, byte for byte. */
function thoughtOf({ role, reasoning_content, reasoning }: ChatMessage): { readonly reasoning_content?: string } {
  const thought = [reasoning_content, reasoning].find((text) => typeof text === 'string' && text !== '');
  return role === 'assistant' && typeof thought === 'string' ? { reasoning_content: thought } : {};
}

/** Calls may stand without content; any other message needs one, and text parts alone become plain text. */
function contentOf({ content, tool_calls }: ChatMessage): unknown {
  if (content === null || content === undefined) return tool_calls?.length ? null : '';
  if (typeof content === 'string') return content;
  const texts = content.flatMap((part) =>
    part.type === 'text' && typeof part['text'] === 'string' ? part['text'] : [],
  );
  return texts.length === content.length ? texts.join('\n') : content;
}
