import { objectsIn } from './objects-in.ts';

/** Input that an upstream bills and that the bytes of a request do not bound. */
export interface UnwrittenInput {
  readonly pictures: number;
  /** Files, films and what the upstream searches by itself: nobody knows before how much that is. */
  readonly unbounded: boolean;
}

/** What most models make of a large picture, however few bytes describe it or its address. */
export const tokensPerPicture = 5_000;

const pictures: readonly unknown[] = ['image_url', 'input_image', 'image'];
const unbounded: readonly unknown[] = [
  'file',
  'input_file',
  'document',
  'video_url',
  'input_video',
  'web_search',
  'web_search_preview',
];
const searches = ['plugins', 'web_search_options'];

export function unwrittenIn(value: unknown): UnwrittenInput {
  const objects = objectsIn(value);
  return {
    pictures: objects.filter(({ type }) => pictures.includes(type)).length,
    unbounded: objects.some((one) => unbounded.includes(one['type']) || searches.some((field) => field in one)),
  };
}
