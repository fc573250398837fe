import { tinyModel } from './tiny-model.ts';

/** Files that look like weights and are not, each with a word that its error message has to contain. */
export const brokenModels: readonly { readonly name: string; readonly reason: RegExp; bytes(): Buffer }[] = [
  { name: 'an empty file', reason: /too short|truncated|cut/i, bytes: () => Buffer.alloc(0) },
  { name: 'a file that is no GGUF', reason: /not a GGUF/i, bytes: () => Buffer.from('<html>404</html>'.repeat(99)) },
  {
    name: 'an unknown GGUF version',
    reason: /version 99/i,
    bytes: () => patched((bytes) => bytes.writeUInt32LE(99, 4)),
  },
  {
    name: 'more metadata entries than the file has room for',
    reason: /metadata/i,
    bytes: () => patched((bytes) => bytes.writeBigUInt64LE(2n ** 40n, 16)),
  },
  { name: 'a cut header', reason: /cut|truncated|incomplete/i, bytes: () => tinyModel().subarray(0, 400) },
  { name: 'cut tensor data', reason: /cut|truncated|incomplete/i, bytes: () => cutTail(tinyModel()) },
  { name: 'an unknown architecture', reason: /architecture/i, bytes: () => tinyModel({ architecture: 'nosuch' }) },
];

function patched(change: (bytes: Buffer) => void): Buffer {
  const bytes = tinyModel();
  change(bytes);
  return bytes;
}

const cutTail = (bytes: Buffer): Buffer => bytes.subarray(0, bytes.length - 70_000);
