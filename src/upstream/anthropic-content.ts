import { z } from 'zod';
import type { ChatMessage, ContentPart } from '../contract/chat.ts';
import { UpstreamFailure } from './chat.ts';

export interface WireBlock {
  readonly type: string;
  readonly [key: string]: unknown;
}

export const textBlock = (text: string): WireBlock => ({ type: 'text', text });

const cacheControl = z.object({
  type: z.literal('ephemeral'),
  ttl: z.enum(['5m', '1h']).optional().catch(undefined),
});
const cacheMark = z.object({ cache_control: cacheControl });
const imagePart = z.object({ type: z.literal('image_url'), image_url: z.object({ url: z.string() }) });
const filePart = z.object({ type: z.literal('file'), file: z.object({ file_data: z.string() }) });
const refusalPart = z.object({ type: z.literal('refusal'), refusal: z.string() });

/** The content of a message as blocks. Empty texts are left out: the API refuses them. */
export function anthropicBlocks({ content }: ChatMessage): WireBlock[] {
  if (content === null || content === undefined) return [];
  const parts: readonly ContentPart[] = typeof content === 'string' ? [textBlock(content)] : content;
  return parts.flatMap((part) => {
    const block = blockOf(part);
    return block.type === 'text' && String(block['text']).trim() === '' ? [] : [{ ...block, ...cachedAs(part) }];
  });
}

function blockOf(part: ContentPart): WireBlock {
  if (part.type === 'text') return textBlock(typeof part['text'] === 'string' ? part['text'] : '');
  const image = imagePart.safeParse(part).data;
  if (image) return { type: 'image', source: sourceOf(image.image_url.url) };
  const file = filePart.safeParse(part).data;
  if (file) return { type: 'document', source: sourceOf(file.file.file_data) };
  const refusal = refusalPart.safeParse(part).data;
  if (refusal) return textBlock(refusal.refusal);
  throw new UpstreamFailure('rejected', 'The request holds a kind of content that this upstream cannot read.');
}

function sourceOf(url: string): object {
  const [, mediaType, data] = /^data:([\w.+/-]+);base64,(.*)$/s.exec(url) ?? [];
  return mediaType === undefined ? { type: 'url', url } : { type: 'base64', media_type: mediaType, data };
}

/** Clients mark where a prompt may be cached, and for how long. */
export const cachedAs = (part: unknown): Partial<z.infer<typeof cacheMark>> => cacheMark.safeParse(part).data ?? {};
