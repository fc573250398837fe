import { isObject } from './relay-request.ts';

/** Input that an upstream bills and that the bytes of a request do not bound. */
export interface UnwrittenInput {
  readonly pictures: number;
  /** Files, films and what the upstream searches by itself: nobody knows before how much that is. */
  readonly unbounded: boolean;
}

/** What most models make of a large picture, however few bytes describe it or its address. */
export const tokensPerPicture = 5_000;

const nothing: UnwrittenInput = { pictures: 0, unbounded: false };
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
  if (Array.isArray(value)) return value.map(unwrittenIn).reduce(both, nothing);
  if (!isObject(value)) return nothing;
  const { type } = value;
  const own = {
    pictures: pictures.includes(type) ? 1 : 0,
    unbounded: unbounded.includes(type) || searches.some((field) => field in value),
  };
  return Object.values(value).map(unwrittenIn).reduce(both, own);
}

const both = (left: UnwrittenInput, right: UnwrittenInput): UnwrittenInput => ({
  pictures: left.pictures + right.pictures,
  unbounded: left.unbounded || right.unbounded,
});
