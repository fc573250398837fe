/** Longer than any word of ours. Comparing takes the product of both lengths, and the word is the client's. */
const longestWord = 256;

/** The valid word nearest to a misspelt one, when it is near enough to be meant. */
export function nearest(word: string, valid: readonly string[]): string | undefined {
  if (word.length > longestWord) return undefined;
  const ranked = valid
    .map((candidate) => ({ candidate, distance: editDistance(word.toLowerCase(), candidate.toLowerCase()) }))
    .sort((left, right) => left.distance - right.distance);
  const best = ranked[0];
  return best && best.distance <= Math.max(2, Math.floor(word.length / 2)) ? best.candidate : undefined;
}

function editDistance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const substituted = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1);
      next.push(Math.min(substituted, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[right.length] ?? 0;
}
