const scriptsWithoutSpaces =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Khmer}\p{sc=Lao}\p{sc=Myanmar}]/u;

/** The words of a text, comparable: one case, no accents, and found by dictionary where a script writes no spaces. */
export function createWordReader(): (text: string) => string[] {
  const segmenter = new Intl.Segmenter(undefined, { granularity: 'word' });
  return (text) => {
    const plain = text.normalize('NFKD').replace(/\p{M}/gu, '').normalize('NFC').toLowerCase();
    if (!scriptsWithoutSpaces.test(plain)) return plain.match(/[\p{L}\p{N}]+/gu) ?? [];
    return [...segmenter.segment(plain)].filter(({ isWordLike }) => isWordLike).map(({ segment }) => segment);
  };
}
