import { wellFormed } from './code-points.ts';

/**
 * A piece of a prompt. Only markup may become control tokens; text is always tokenised as plain text, whatever it
 * contains. Markup is nothing but control tags that we placed; all words, ours and other people's, are text, joined
 * where they meet, so that words are split into tokens as they were in training.
 */
export interface Segment {
  readonly kind: 'markup' | 'text';
  readonly text: string;
}

export const markup = (text: string): Segment => ({ kind: 'markup', text });
export const untrusted = (text: string): Segment => ({ kind: 'text', text });

/** The prompt as one string: what a backend without segments receives, and what golden vectors pin. */
export const joinSegments = (segments: readonly Segment[]): string => segments.map(({ text }) => text).join('');

/** Our own text, in which the given tags are markup. Never call it with text that somebody else wrote. */
export function trusted(text: string, controlTags: readonly string[]): Segment[] {
  const pattern = new RegExp(`(${controlTags.map((tag) => tag.replace(/[^\w]/g, '\\$&')).join('|')})`);
  return text
    .split(pattern)
    .filter((piece) => piece !== '')
    .map((piece) => (controlTags.includes(piece) ? markup(piece) : untrusted(piece)));
}

/** Joins neighbouring texts, drops empty ones and makes every text well-formed Unicode. */
export function mergeTexts(segments: readonly Segment[]): Segment[] {
  const merged: Segment[] = [];
  for (const segment of segments) {
    const last = merged.at(-1);
    if (segment.text === '') continue;
    if (segment.kind === 'text' && last?.kind === 'text')
      merged[merged.length - 1] = untrusted(last.text + segment.text);
    else merged.push(segment);
  }
  return merged.map(({ kind, text }) => ({ kind, text: wellFormed(text) }));
}
