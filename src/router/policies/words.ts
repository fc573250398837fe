/** Of the hash FNV-1a, 32 bits: http://www.isthe.com/chongo/tech/comp/fnv/ */
const fnvOffset = 0x811c9dc5;
const fnvPrime = 0x01000193;

/** Runs of letters and digits; every other sign for itself, letters beyond ASCII among them. */
const word = /[a-z0-9]+|[^\0-\x20a-z0-9]/gu;

/**
 * Which of so many buckets the words of a text fall into, each bucket once, in order of appearance. Words tell subjects
 * apart that a sentence embedding blurs. Twin of `buckets_of` in scripts/train/orchestra_train/words.py.
 */
export function bucketsOf(text: string, buckets: number): readonly number[] {
  const words = text.toLowerCase().match(word) ?? [];
  return [...new Set(words.map((one) => hashOf(one) % buckets))];
}

function hashOf(text: string): number {
  let hash = fnvOffset;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, fnvPrime) >>> 0;
  return hash;
}
