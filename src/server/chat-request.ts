import type { ChatMessage, ContentPart, ToolCall } from '../contract/chat.ts';
import { textOf } from '../contract/chat.ts';
import { countCodePoints } from '../contract/code-points.ts';
import type { Needs } from '../preferences/limits.ts';
import type { Modality } from '../preferences/slot.ts';
import { unwrittenIn } from '../upstream/unwritten-input.ts';
import { metadataPrefix } from './caller-preferences.ts';
import { invalidField } from './openrouter-provider.ts';
import type { ChatRequest } from './wire.ts';

/** What the loop needs of a chat request, after the parts that only old or unusual clients send were put in order. */
export interface PreparedChat {
  readonly messages: readonly ChatMessage[];
  readonly needs: Needs;
  readonly answerOptions: Readonly<Record<string, unknown>>;
  readonly maxAnswerTokens: number | undefined;
  readonly seed: number;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** The client speaks `functions`, so calls go back as `function_call`. */
  readonly legacyFunctions: boolean;
  /** At most one client tool call in the answer. */
  readonly oneToolCall: boolean;
  /** What the client wants to find again beside the answer. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** @throws OrchestraError invalid_request for what the loop cannot do; better said than silently ignored. */
export function prepareChat(request: ChatRequest): PreparedChat {
  refuseUnsupported(request);
  const tools = clientTools(request);
  const toolChoice = clientToolChoice(request);
  checkToolChoice(toolChoice, tools);
  const messages = hoistToolImages(translateFunctionTurns(request.messages.map(withImageObjects)));
  const legacyFunctions = (request.functions?.length ?? 0) > 0 && (request.tools?.length ?? 0) === 0;
  const offersTools = tools.length > 0 && toolChoice !== 'none';
  return {
    messages,
    needs: needsOf(request, messages, offersTools),
    answerOptions: {
      ...present(request, answerFields),
      ...(tools.length > 0 && { tools }),
      ...(tools.length > 0 && toolChoice !== undefined && { tool_choice: toolChoice }),
    },
    maxAnswerTokens: request.max_completion_tokens ?? request.max_tokens ?? undefined,
    seed: request.seed ?? 0,
    stream: request.stream === true,
    includeUsage: request.stream_options?.include_usage === true,
    legacyFunctions,
    oneToolCall: legacyFunctions || request.parallel_tool_calls === false,
    metadata: Object.fromEntries(Object.entries(request.metadata ?? {}).filter(isOwnText)),
  };
}

const isOwnText = (entry: [string, unknown]): entry is [string, string] =>
  typeof entry[1] === 'string' && !entry[0].startsWith(metadataPrefix);

/** OpenAI fields that belong to the answer, whoever writes it. */
const answerFields = [
  'temperature',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'logit_bias',
  'seed',
  'stop',
  'parallel_tool_calls',
  'response_format',
  'reasoning_effort',
  'verbosity',
] as const;

function present(request: ChatRequest, fields: readonly (keyof ChatRequest)[]): Record<string, unknown> {
  const given = fields.filter((field) => request[field] !== null && request[field] !== undefined);
  return Object.fromEntries(given.map((field) => [field, request[field]]));
}

const knownFormats = ['text', 'json_object', 'json_schema'];

function refuseUnsupported(request: ChatRequest): void {
  if ((request.n ?? 1) > 1) throw invalidField('n', 'this model gives one answer; send the request again for another');
  if (request.logprobs === true) throw invalidField('logprobs', 'this model has no token probabilities to give');
  if (request.modalities?.includes('audio')) throw invalidField('modalities', 'this model answers in text only');
  if (request.messages.at(-1)?.role === 'assistant') {
    throw invalidField('messages', 'the last message is from the assistant; there is nothing to answer');
  }
  const format = request.response_format;
  if (!format) return;
  if (!knownFormats.includes(format.type)) {
    throw invalidField('response_format.type', `must be one of ${knownFormats.join(', ')}`);
  }
  if (format.type === 'json_schema' && !format.json_schema) {
    throw invalidField('response_format.json_schema', 'is missing');
  }
}

type ClientTool = Readonly<Record<string, unknown>>;

function clientTools({ tools, functions }: ChatRequest): readonly ClientTool[] {
  if (tools && tools.length > 0) return tools;
  return (functions ?? []).map((definition) => ({ type: 'function', function: definition }));
}

function clientToolChoice({ tool_choice, function_call }: ChatRequest): unknown {
  if (tool_choice !== null && tool_choice !== undefined) return tool_choice;
  if (function_call === null || function_call === undefined) return undefined;
  return typeof function_call === 'string' ? function_call : { type: 'function', function: function_call };
}

/** A choice that cannot be met is told before anything is spent. */
function checkToolChoice(choice: unknown, tools: readonly ClientTool[]): void {
  if (choice === undefined || choice === 'none' || choice === 'auto') return;
  if (tools.length === 0) throw invalidField('tool_choice', 'asks for a tool call, but there are no `tools`');
  const wanted = functionName(choice);
  if (wanted === undefined) return;
  if (!tools.some((tool) => functionName(tool) === wanted)) {
    throw invalidField('tool_choice', 'names a function that is not among `tools`');
  }
}

function functionName(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || !('function' in value)) return undefined;
  const { function: named } = value;
  if (typeof named !== 'object' || named === null || !('name' in named)) return undefined;
  return typeof named.name === 'string' ? named.name : undefined;
}

function needsOf(request: ChatRequest, messages: readonly ChatMessage[], clientToolsNeeded: boolean): Needs {
  const codePoints = messages.reduce((sum, message) => sum + countCodePoints(textOf(message)), 0);
  const { unsized, unpriced } = unwrittenIn({ messages, tools: request.tools });
  return {
    input: [...new Set<Modality>(['text', ...messages.flatMap(modalitiesOf)])],
    clientTools: clientToolsNeeded,
    jsonSchema: request.response_format?.type === 'json_schema',
    contextTokens: Math.floor(codePoints / 4),
    unsized,
    unpriced,
  };
}

const modalities: ReadonlyMap<string, Modality> = new Map<string, Modality>([
  ['image_url', 'image'],
  ['input_audio', 'audio'],
  ['file', 'file'],
  ['video_url', 'file'],
]);

const partsOf = ({ content }: ChatMessage): readonly ContentPart[] => (Array.isArray(content) ? content : []);
const modalitiesOf = (message: ChatMessage) => partsOf(message).flatMap(({ type }) => modalities.get(type) ?? []);

/** Some clients send the URL alone where OpenAI has an object. */
function withImageObjects(message: ChatMessage): ChatMessage {
  if (!Array.isArray(message.content)) return message;
  const content = message.content.map((part) =>
    part.type === 'image_url' && typeof part['image_url'] === 'string'
      ? { ...part, image_url: { url: part['image_url'] } }
      : part,
  );
  return { ...message, content };
}

const isImage = ({ type }: ContentPart): boolean => type === 'image_url';

/** OpenAI's tool messages hold text only, but agents put screenshots there: those move into a user message behind. */
function hoistToolImages(messages: readonly ChatMessage[]): ChatMessage[] {
  const ordered: ChatMessage[] = [];
  let hoisted: ContentPart[] = [];
  const flush = () => {
    if (hoisted.length > 0) ordered.push({ role: 'user', content: hoisted });
    hoisted = [];
  };
  for (const message of messages) {
    if (message.role !== 'tool') flush();
    const images = message.role === 'tool' ? partsOf(message).filter(isImage) : [];
    for (const image of images) hoisted.push(image);
    ordered.push(
      images.length === 0 ? message : { ...message, content: partsOf(message).filter((part) => !isImage(part)) },
    );
  }
  flush();
  return ordered;
}

/** Turns `function_call` and role `function` into calls and tool messages; ids are counted, as the old form had none. */
function translateFunctionTurns(messages: readonly ChatMessage[]): ChatMessage[] {
  let calls = 0;
  return messages.map((message): ChatMessage => {
    if (message.role === 'function') {
      return { role: 'tool', content: message.content ?? '', tool_call_id: `call_legacy${calls}` };
    }
    const call = message['function_call'];
    if (message.role !== 'assistant' || typeof call !== 'object' || call === null) return message;
    calls += 1;
    const { function_call: _, ...rest } = message;
    return { ...rest, role: 'assistant', tool_calls: [legacyCall(call, calls)] };
  });
}

function legacyCall(call: object, ordinal: number): ToolCall {
  const { name, arguments: given } = call as { name?: unknown; arguments?: unknown }; // Both are checked below.
  return {
    id: `call_legacy${ordinal}`,
    type: 'function',
    function: { name: String(name ?? ''), arguments: typeof given === 'string' ? given : JSON.stringify(given ?? {}) },
  };
}
