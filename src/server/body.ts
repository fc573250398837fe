import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, inflateRaw } from 'node:zlib';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { OrchestraError } from '../errors.ts';
import { parseJson } from './json.ts';
import { decodeZstd } from './zstd.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Length of the decoded body. */
    bodyBytes: number;
  }
}

/**
 * Reads every body as JSON, whatever its content type says: clients get that header wrong more often than the body.
 * Compressed bodies are decoded under the same size limit as plain ones.
 */
export function acceptJsonBodies(app: FastifyInstance, bodyBytes: number): void {
  app.decorateRequest('bodyBytes', 0);
  app.removeAllContentTypeParsers();
  // A header that does not even parse would be refused before any parser is asked.
  app.addHook('onRequest', ({ raw }, _, done) => {
    raw.headers['content-type'] = 'application/json';
    done();
  });
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer', bodyLimit: bodyBytes },
    async (request: FastifyRequest, raw: Buffer) => {
      const bytes = await decode(raw, request.headers['content-encoding'], bodyBytes);
      request.bodyBytes = bytes.length;
      return bytes.length === 0 ? undefined : parseJson(bytes.toString('utf8'));
    },
  );
}

type Decoder = (bytes: Buffer, limit: { maxOutputLength: number }) => Promise<Uint8Array>;

const gunzipAsync: Decoder = promisify(gunzip);
const inflateAsync: Decoder = promisify(inflate);
const inflateRawAsync: Decoder = promisify(inflateRaw);

const decoders: ReadonlyMap<string, Decoder> = new Map<string, Decoder>([
  ['identity', async (bytes) => bytes],
  ['gzip', gunzipAsync],
  ['x-gzip', gunzipAsync],
  ['deflate', (bytes, limit) => (hasZlibHeader(bytes) ? inflateAsync(bytes, limit) : inflateRawAsync(bytes, limit))],
  ['br', promisify(brotliDecompress)],
  ['zstd', async (bytes, { maxOutputLength }) => decodeZstd(bytes, maxOutputLength)],
]);

const mostEncodings = 2;

async function decode(body: Buffer, contentEncoding: string | undefined, maxOutputLength: number): Promise<Buffer> {
  if (contentEncoding === undefined) return body;
  const names = contentEncoding.split(',').map((name) => name.trim().toLowerCase());
  if (names.length > mostEncodings) throw unknownEncoding(names);
  let bytes: Uint8Array = body;
  for (const name of names.toReversed()) {
    const decoder = decoders.get(name);
    if (!decoder) throw unknownEncoding(names);
    bytes = await decoder(Buffer.from(bytes), { maxOutputLength }).catch((cause: unknown) => {
      throw decodingError(name, maxOutputLength, cause);
    });
  }
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const unknownEncoding = (names: readonly string[]) =>
  new OrchestraError(
    'unsupported_media_type',
    `Content-Encoding \`${names.join(', ').slice(0, 60)}\` is not known. Known: ${[...decoders.keys()].join(', ')}.`,
  );

function decodingError(name: string, limit: number, cause: unknown): OrchestraError {
  if (cause instanceof OrchestraError) return cause;
  const tooLarge = cause instanceof Error && 'code' in cause && cause.code === 'ERR_BUFFER_TOO_LARGE';
  return tooLarge
    ? bodyTooLarge(limit)
    : new OrchestraError('invalid_request', `The body is not valid ${name}.`, { cause });
}

const bodyTooLarge = (limit: number) =>
  new OrchestraError('payload_too_large', `The body is larger than ${limit} bytes.`);

/** RFC 1950: method 8 and a check that makes the first two bytes a multiple of 31. Some clients send raw deflate. */
function hasZlibHeader(bytes: Buffer): boolean {
  return bytes.length >= 2 && ((bytes[0] ?? 0) & 0x0f) === 8 && bytes.readUInt16BE(0) % 31 === 0;
}
