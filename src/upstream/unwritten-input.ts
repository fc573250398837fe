import { objectsIn } from './objects-in.ts';
import { isObject, type JsonObject } from './relay-request.ts';

/** What a request has an upstream bill beyond the text that stands in it. Fields are named as clients know them. */
export interface UnwrittenInput {
  readonly pictures: number;
  /** Letters of pictures, files and speech that stand in the request: what is billed is what they show. */
  readonly inlineBytes: number;
  /** Where input stands whose length nobody knows before: files, films, speech. */
  readonly unsized: string | undefined;
  /** Where speech stands, whose tokens many upstreams bill at a price of its own. */
  readonly speech: string | undefined;
  /** What has the upstream bill more than this request's tokens: searches and tools of its own, spoken answers. */
  readonly unpriced: string | undefined;
}

/**
 * Of a slot that does not say: no model is known to make more of one picture, however large. The most are the 48,169 of
 * gpt-4o-mini (2,833 + 8 tiles of 5,667); GPT-6 takes up to 36,000 (30,000 patches at 1.2), Qwen-VL 16,384.
 */
const mostTokensPerPicture = 50_000;

/** Who reads it, as far as the length of what it reads is known. */
export interface PictureReader {
  readonly pictureTokens?: number | undefined;
  readonly windowTokens?: number | undefined;
}

/** The most input that an upstream can bill for what is not written out; no request is longer than the model's window. */
export function unwrittenTokens(
  { pictures, unsized }: UnwrittenInput,
  { pictureTokens = mostTokensPerPicture, windowTokens }: PictureReader,
): number {
  const tokens = pictures * pictureTokens;
  if (windowTokens === undefined) return tokens;
  return unsized === undefined ? Math.min(tokens, windowTokens) : windowTokens;
}

const pictures: readonly unknown[] = ['image_url', 'input_image', 'image'];
const recordings: readonly unknown[] = ['input_audio', 'audio_url'];
const files: readonly unknown[] = ['file', 'input_file', 'document', 'video_url', 'input_video'];
const texts: readonly unknown[] = [
  'text',
  'input_text',
  'output_text',
  'refusal',
  'thinking',
  'tool_use',
  'tool_result',
];

/** @param request a body as clients send it, or the part of one that goes upstream. */
export function unwrittenIn(request: JsonObject): UnwrittenInput {
  const fields = ['messages', 'input', 'prompt'];
  const inputs = fields.map((field) => ({ field, objects: objectsIn(request[field]) }));
  const fieldWith = (isIt: (part: JsonObject) => boolean) => inputs.find(({ objects }) => objects.some(isIt))?.field;
  const parts = fields.flatMap((field) => partsIn(request[field]));
  return {
    pictures: inputs.flatMap(({ objects }) => objects).filter(isPicture).length,
    inlineBytes: parts.reduce((sum, part) => sum + inlineBytesOf(part), 0),
    unsized: fieldWith((part) => isUnsized(part) || listOf(part['content']).some(isOfUnknownKind)),
    speech: fieldWith(isSpeech),
    unpriced: unpricedField(request),
  };
}

/**
 * Where upstreams look for parts. What has their form elsewhere, such as in the arguments of a call, may be read as text, so
 * its letters count; and no letter stands in two of these.
 */
function partsIn(input: unknown): JsonObject[] {
  const items = listOf(input).filter(isObject);
  const parts = items.flatMap(contentOf);
  return [...items, ...parts, ...parts.flatMap(contentOf)];
}

const contentOf = (holder: JsonObject): JsonObject[] => listOf(holder['content']).filter(isObject);

/** Gemini takes documents and films under the name of pictures. */
const holdsNoPicture = (part: JsonObject) => inlineIn(part).some((text) => /^\s*data:(?!image\/)/i.test(text));

const isPicture = (part: JsonObject): boolean => pictures.includes(part['type']) && !holdsNoPicture(part);

/** A message that was spoken before is replayed by its id. */
const isSpeech = ({ type, role, audio }: JsonObject): boolean =>
  recordings.includes(type) || (role === 'assistant' && isObject(audio));

const isUnsized = (part: JsonObject): boolean =>
  isSpeech(part) || files.includes(part['type']) || (pictures.includes(part['type']) && holdsNoPicture(part));

/** Of what some upstream alone knows, nobody can say here how much it is. */
const isOfUnknownKind = (part: unknown): boolean =>
  isObject(part) &&
  part['type'] !== undefined &&
  ![...texts, ...pictures, ...files, ...recordings].includes(part['type']);

const inlineBytesOf = (part: JsonObject): number =>
  isPicture(part) || isUnsized(part) ? inlineIn(part).reduce((sum, text) => sum + text.length, 0) : 0;

/** Letters, wherever the APIs have a part keep them. */
function inlineIn(part: JsonObject): string[] {
  const holders = [part, part[String(part['type'])], part['source']].filter(isObject);
  return holders
    .flatMap(({ url, image_url, data, file_data }) => [url, image_url, data, file_data])
    .filter((text) => typeof text === 'string');
}

/** Fields in which clients of OpenAI, OpenRouter, xAI and DashScope order searches, or what only the upstream knows. */
const orders = ['web_search_options', 'plugins', 'preset', 'search_parameters', 'enable_search'];

const clientTools: readonly unknown[] = [undefined, 'function', 'custom'];
/** Whether the client runs it itself; all others are run, and billed, upstream. Some of those have a name for a type. */
const isClientTool = ({ type, name, function: called, custom }: JsonObject): boolean =>
  clientTools.includes(type) && [name, called, custom].some((described) => described !== undefined);

function unpricedField({ model, tools, modalities, ...request }: JsonObject): string | undefined {
  // The suffix is OpenRouter's, and has it search.
  if (typeof model === 'string' && model.endsWith(':online')) return 'model';
  if (listOf(tools).some((tool) => isObject(tool) && !isClientTool(tool))) return 'tools';
  if (listOf(modalities).includes('audio')) return 'modalities';
  return orders.find((field) => isOrdered(request[field]));
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const isOrdered = (value: unknown): boolean =>
  value !== undefined && value !== null && value !== false && !(Array.isArray(value) && value.length === 0);
