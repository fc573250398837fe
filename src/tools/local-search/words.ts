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

/** English words that carry a question but none of its matter; whether a text has them says nothing about it. */
export const functionWords: ReadonlySet<string> = new Set(
  (
    'a about all am an and any are as at be been but by can could did do does for from give had has have how i if in is ' +
    'it its me my of on or our please say says should so tell that the their them there these they this those to us was ' +
    'we were what when where which who why will with would you your'
  ).split(' '),
);
