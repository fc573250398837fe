import { keepHead, wellFormed } from '../contract/code-points.ts';

/**
 * Control characters but for line ends and tabs, and characters that show nothing: the means to hide instructions from
 * people while models read them. The joiners stay, since emoji and some scripts need them.
 */
const unseen = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}]|[\u{e0100}-\u{e01ef}]/gu;

/** Text from outside, fit to be shown to a model or a person: nothing hidden, at most `limit` code points. */
export function cleanText(text: string, limit: number): string {
  const visible = wellFormed(text).replace(/\r\n?/g, '\n').replace(unseen, '').trim();
  return keepHead(visible, limit, ' …');
}
