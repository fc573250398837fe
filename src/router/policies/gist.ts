import { countCodePoints, keepHead, keepTail } from '../../contract/code-points.ts';

const headCodePoints = 400;
const tailCodePoints = 200;

/**
 * What of a problem is embedded: long texts say at both ends what they want, and the time of a decision grows with every
 * word. Twin of `gist_of` in scripts/train/orchestra_train/gist.py; the heads were trained on it.
 */
export function gistOf(text: string): string {
  if (countCodePoints(text) <= headCodePoints + tailCodePoints) return text;
  return `${keepHead(text, headCodePoints)}\n${keepTail(text, tailCodePoints)}`;
}
