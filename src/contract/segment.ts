/**
 * A piece of a prompt: markup that we wrote and trust, or text that somebody else wrote. Only markup may become
 * control tokens; text is always tokenised as plain text, whatever it contains.
 */
export interface Segment {
  readonly kind: 'markup' | 'text';
  readonly text: string;
}

export const markup = (text: string): Segment => ({ kind: 'markup', text });
export const untrusted = (text: string): Segment => ({ kind: 'text', text });

/** The prompt as one string: what a backend without segments receives, and what golden vectors pin. */
export const joinSegments = (segments: readonly Segment[]): string => segments.map(({ text }) => text).join('');
