import { createWriteStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createInflateRaw } from 'node:zlib';
import { DownloadFailure } from './failure.ts';

/** Where one file lies inside a zip archive. */
interface Member {
  readonly deflated: boolean;
  readonly compressedBytes: number;
  readonly headerOffset: number;
}

// Field offsets and signatures: PKWARE APPNOTE 4.3.7, 4.3.12 and 4.3.16.
const endSignature = 0x06054b50;
const endBytes = 22;
const longestCommentBytes = 0xffff;
const entrySignature = 0x02014b50;
const entryBytes = 46;
const headerSignature = 0x04034b50;
const headerBytes = 30;
/** Stands where the true value is in a zip64 record, which wheels of the sizes we pull do not need. */
const elsewhere = 0xffffffff;
const largestDirectoryBytes = 16 * 1024 * 1024;

/**
 * Writes one file of a zip archive, named exactly, to a path of the caller's. Nothing else in the archive is looked at,
 * and no more than `sizeBytes` are written. What they are is for the caller to check.
 */
export async function extractMember(
  archive: string,
  member: string,
  target: string,
  sizeBytes: number,
  signal: AbortSignal,
): Promise<void> {
  const handle = await open(archive);
  try {
    const found = await findMember(handle, member);
    const start = await findData(handle, found.headerOffset);
    const compressed = handle.createReadStream({ start, end: start + found.compressedBytes - 1, autoClose: false });
    const bounded = (chunks: AsyncIterable<Buffer>) => atMost(chunks, sizeBytes);
    const written = createWriteStream(target);
    if (found.deflated) await pipeline(compressed, createInflateRaw(), bounded, written, { signal });
    else await pipeline(compressed, bounded, written, { signal });
  } catch (thrown) {
    signal.throwIfAborted();
    throw isDamage(thrown) ? damaged('its data') : thrown;
  } finally {
    await handle.close();
  }
}

/** zlib's own errors, and the abort that a pipeline makes of data going on after the end of the compressed stream. */
function isDamage(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && /^(Z_|ABORT_ERR)/.test(String(thrown.code));
}

async function findMember(handle: FileHandle, name: string): Promise<Member> {
  const directory = await readDirectory(handle);
  const wanted = Buffer.from(name);
  for (let at = 0; at + entryBytes <= directory.length; ) {
    if (directory.readUInt32LE(at) !== entrySignature) throw damaged('its directory');
    const nameEnd = at + entryBytes + directory.readUInt16LE(at + 28);
    if (directory.subarray(at + entryBytes, nameEnd).equals(wanted)) return readEntry(directory, at);
    at = nameEnd + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
  }
  throw new DownloadFailure('wrong_content', `The archive has no ${name}.`);
}

function readEntry(directory: Buffer, at: number): Member {
  const encrypted = (directory.readUInt16LE(at + 8) & 1) === 1;
  const method = directory.readUInt16LE(at + 10);
  const compressedBytes = directory.readUInt32LE(at + 20);
  const headerOffset = directory.readUInt32LE(at + 42);
  if (encrypted || (method !== 0 && method !== 8)) throw damaged('a member in an unknown form');
  if (compressedBytes === 0) throw damaged('an empty member');
  if (compressedBytes === elsewhere || headerOffset === elsewhere) throw damaged('a zip64 member');
  return { deflated: method === 8, compressedBytes, headerOffset };
}

async function readDirectory(handle: FileHandle): Promise<Buffer> {
  const { size } = await handle.stat();
  const tailBytes = Math.min(size, endBytes + longestCommentBytes);
  const tail = await readExactly(handle, size - tailBytes, tailBytes);
  for (let at = tail.length - endBytes; at >= 0; at--) {
    if (tail.readUInt32LE(at) !== endSignature) continue;
    const bytes = tail.readUInt32LE(at + 12);
    if (bytes > largestDirectoryBytes) throw damaged('its directory');
    return readExactly(handle, tail.readUInt32LE(at + 16), bytes);
  }
  throw damaged('no end record');
}

/** The header before the data repeats the directory's entry, with name and extra lengths of its own. */
async function findData(handle: FileHandle, headerOffset: number): Promise<number> {
  const header = await readExactly(handle, headerOffset, headerBytes);
  if (header.readUInt32LE(0) !== headerSignature) throw damaged('a member without header');
  return headerOffset + headerBytes + header.readUInt16LE(26) + header.readUInt16LE(28);
}

async function readExactly(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, position);
  if (bytesRead < length) throw damaged('it ends too early');
  return buffer;
}

async function* atMost(chunks: AsyncIterable<Buffer>, limitBytes: number): AsyncGenerator<Buffer> {
  let written = 0;
  for await (const chunk of chunks) {
    written += chunk.length;
    if (written > limitBytes) throw new DownloadFailure('wrong_content', 'The archive holds more than it should.');
    yield chunk;
  }
}

function damaged(what: string): DownloadFailure {
  return new DownloadFailure('wrong_content', `The archive cannot be read: ${what}.`);
}
