import type { LlamaModel, Token } from 'node-llama-cpp';

/**
 * The bytes of a token. The library gives text only, which half a character has none of, so they are read from the
 * vocabulary where it spells bytes: byte-level models in GPT-2's letters, others some of them as `<0xF0>`.
 */
export function tokenBytes(model: LlamaModel): (token: Token, before: readonly Token[]) => Buffer {
  const { tokens: stored, model: kind } = model.fileInfo.metadata.tokenizer?.ggml ?? {};
  const byteOfLetter = gpt2Letters();
  return (token, before) => {
    const spelling: unknown = Array.isArray(stored) ? stored[token] : undefined;
    const { control, userDefined } = model.getTokenAttributes(token);
    if (typeof spelling === 'string' && !control && !userDefined) {
      const single = /^<0x([0-9A-F]{2})>$/.exec(spelling)?.[1];
      if (single !== undefined) return Buffer.from(single, 'hex');
      const bytes = [...spelling].map((letter) => byteOfLetter.get(letter));
      const known = bytes.filter((byte) => byte !== undefined);
      if (kind === 'gpt2' && known.length === bytes.length) return Buffer.from(known);
    }
    return Buffer.from(model.detokenize([token], true, before));
  };
}

/** Printable bytes stand for themselves; the others, in order, have the letters from 256 on. */
function gpt2Letters(): ReadonlyMap<string, number> {
  const isPrintable = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  const bytes = Array.from({ length: 256 }, (_, byte) => byte);
  const others = bytes.filter((byte) => !isPrintable(byte));
  return new Map(
    bytes.map((byte) => [String.fromCodePoint(isPrintable(byte) ? byte : 256 + others.indexOf(byte)), byte]),
  );
}
