import { z } from 'zod';
import type { ChatMessage, ContentPart } from '../contract/chat.ts';
import { type ChatRequest, UpstreamFailure } from './chat.ts';
import { repairToolTurns } from './tool-turns.ts';

/** Our request as a Responses body: always a stream, always bounded, never stored by the upstream. */
export function responsesBody({ model, messages, maxOutputTokens, options }: ChatRequest) {
  const { stop, ...rest } = optionsSchema.parse(options);
  // The API has no stop sequences, and an answer that runs past one is not what was asked for.
  if (stop.length > 0) throw new UpstreamFailure('rejected', 'This upstream cannot hold to stop sequences.');
  return {
    ...settingsOf(rest),
    model,
    input: repairToolTurns(messages).flatMap(itemsOf),
    max_output_tokens: maxOutputTokens,
    stream: true,
    store: false,
  } as const;
}

const functionTool = z.looseObject({
  function: z.looseObject({
    name: z.string(),
    description: z.string().nullish(),
    parameters: z.looseObject({}).nullish(),
    strict: z.boolean().nullish(),
  }),
});
const namedChoice = z.object({ function: z.object({ name: z.string() }) });
const jsonSchemaFormat = z.object({ type: z.literal('json_schema'), json_schema: z.looseObject({}) });

const optionsSchema = z.object({
  temperature: z.number().optional().catch(undefined),
  top_p: z.number().optional().catch(undefined),
  reasoning_effort: z.string().optional().catch(undefined),
  verbosity: z.string().optional().catch(undefined),
  prompt_cache_key: z.string().optional().catch(undefined),
  parallel_tool_calls: z.boolean().optional().catch(undefined),
  stop: z.union([z.string().transform((text) => [text]), z.array(z.string())]).catch([]),
  tools: z.array(z.unknown()).catch([]),
  tool_choice: z.unknown().optional(),
  response_format: z.unknown().optional(),
});

function settingsOf(options: Omit<z.infer<typeof optionsSchema>, 'stop'>): Record<string, unknown> {
  const {
    tools: offered,
    tool_choice,
    parallel_tool_calls,
    response_format,
    reasoning_effort,
    verbosity,
    ...same
  } = options;
  const tools = offered.flatMap(toolOf);
  const format = formatOf(response_format);
  return present({
    ...same,
    ...(tools.length > 0 ? { tools, tool_choice: choiceOf(tool_choice), parallel_tool_calls } : {}),
    ...(format || verbosity ? { text: present({ format, verbosity }) } : {}),
    ...(reasoning_effort ? { reasoning: { effort: reasoning_effort } } : {}),
  });
}

const present = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

/** Chat nests the function, this API does not; and here strictness is the default that must be declined. */
function toolOf(tool: unknown): object[] {
  const parsed = functionTool.safeParse(tool).data;
  if (!parsed) return [];
  const { name, description, parameters, strict } = parsed.function;
  return [
    {
      type: 'function',
      name,
      parameters: parameters ?? { type: 'object', properties: {} },
      strict: strict ?? false,
      ...(description ? { description } : {}),
    },
  ];
}

function choiceOf(choice: unknown): unknown {
  const named = namedChoice.safeParse(choice).data;
  if (named) return { type: 'function', name: named.function.name };
  return typeof choice === 'string' ? choice : undefined;
}

function formatOf(format: unknown): object | undefined {
  const schema = jsonSchemaFormat.safeParse(format).data;
  if (schema) return { ...schema.json_schema, type: 'json_schema' };
  return z.object({ type: z.literal('json_object') }).safeParse(format).data;
}

/** One message becomes one item, and one more for each of its calls. */
function itemsOf(message: ChatMessage): object[] {
  if (message.role === 'tool') {
    return [{ type: 'function_call_output', call_id: message.tool_call_id ?? '', output: plainText(message) }];
  }
  const calls = (message.tool_calls ?? []).map(({ id, function: called }) => ({
    type: 'function_call',
    call_id: id,
    name: called?.name ?? '',
    arguments: called?.arguments || '{}',
  }));
  if (message.role === 'assistant') {
    const text = plainText(message);
    return text === '' ? calls : [{ role: 'assistant', content: text }, ...calls];
  }
  const role = message.role === 'function' ? 'user' : message.role;
  const { content } = message;
  return [{ role, content: Array.isArray(content) ? content.map(inputPart) : (content ?? '') }];
}

const textPart = z.union([
  z.object({ type: z.literal('text'), text: z.string() }).transform(({ text }) => text),
  z.object({ type: z.literal('refusal'), refusal: z.string() }).transform(({ refusal }) => refusal),
]);

function plainText({ content }: ChatMessage): string {
  if (!Array.isArray(content)) return content ?? '';
  return content.flatMap((part) => textPart.safeParse(part).data ?? []).join('\n');
}

const imagePart = z.object({
  type: z.literal('image_url'),
  image_url: z.object({ url: z.string(), detail: z.string().optional().catch(undefined) }),
});
const filePart = z.object({ type: z.literal('file'), file: z.looseObject({}) });

function inputPart(part: ContentPart): object {
  const text = textPart.safeParse(part).data;
  if (text !== undefined) return { type: 'input_text', text };
  const image = imagePart.safeParse(part).data?.image_url;
  if (image) return present({ type: 'input_image', image_url: image.url, detail: image.detail });
  const file = filePart.safeParse(part).data?.file;
  if (file) return { ...file, type: 'input_file' };
  throw new UpstreamFailure('rejected', 'The request holds a kind of content that this upstream cannot read.');
}
