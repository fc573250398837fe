import { open } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { type Dispatcher, EnvHttpProxyAgent, request } from 'undici';
import type { DownloadEntry, HuggingFaceSource } from './entry.ts';
import { DownloadFailure, filePath, publicOrigin } from './failure.ts';
import type { FetchOptions } from './source.ts';
import type { Origin, Workplace } from './workplace.ts';

const connectTimeoutMs = 10_000;
const mostRedirects = 5;
/** Connections that broke off but brought something: the next one goes on where they ended. */
const mostRounds = 10;

interface Opened {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Dispatcher.ResponseData['body'];
  /** The hash the hub names for the file it hands out, if it does. */
  readonly promisedSha256: string | undefined;
}

/**
 * Fetches one file from Hugging Face or a mirror of it, going on from what the workplace holds already.
 * @returns the SHA-256 the server promised, if it did.
 */
export async function fetchFromHuggingFace(
  entry: DownloadEntry,
  source: HuggingFaceSource,
  place: Workplace,
  options: FetchOptions,
): Promise<string | undefined> {
  const dispatcher = createDispatcher(options);
  const url = addressOf(entry, source, options.environment['HF_ENDPOINT'] || publicOrigin);
  try {
    for (let round = 1; round <= mostRounds; round++) {
      const bytesBefore = await place.bytesHere();
      if (bytesBefore === entry.sizeBytes) return (await place.readOrigin()).promisedSha256;
      try {
        await fetchRest(entry, url, place, dispatcher, options);
      } catch (thrown) {
        options.signal.throwIfAborted();
        if (thrown instanceof DownloadFailure) throw thrown;
        if ((await place.bytesHere()) <= bytesBefore) throw lostConnection(thrown);
      }
    }
    throw new DownloadFailure('unavailable', 'The connection broke off too often.');
  } finally {
    await dispatcher.destroy();
  }
}

function addressOf(entry: DownloadEntry, source: HuggingFaceSource, endpoint: string): URL {
  if (!URL.canParse(endpoint)) throw new DownloadFailure('unavailable', 'HF_ENDPOINT is not a URL.');
  return new URL(endpoint.replace(/\/+$/, '') + filePath(source, entry.file));
}

function createDispatcher({ environment, silenceMs }: FetchOptions): Dispatcher {
  return new EnvHttpProxyAgent({
    // Empty rather than left out: undici would look at the process's own environment.
    httpProxy: environment['http_proxy'] ?? environment['HTTP_PROXY'] ?? '',
    httpsProxy: environment['https_proxy'] ?? environment['HTTPS_PROXY'] ?? '',
    noProxy: environment['no_proxy'] ?? environment['NO_PROXY'] ?? '',
    connect: { timeout: connectTimeoutMs },
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
  });
}

/** One connection. May end before the file is whole; what it brought stays in the workplace. */
async function fetchRest(
  entry: DownloadEntry,
  url: URL,
  place: Workplace,
  dispatcher: Dispatcher,
  options: FetchOptions,
): Promise<void> {
  const { etag } = await place.readOrigin();
  const bytesHere = etag === undefined ? 0 : await place.bytesHere();
  const range = etag === undefined || bytesHere === 0 ? {} : { range: `bytes=${bytesHere}-`, 'if-range': etag };
  const opened = await openFile(url, { 'accept-encoding': 'identity', ...range }, dispatcher, options);
  try {
    refuseOtherFile(entry, opened.promisedSha256);
    if (![200, 206, 416].includes(opened.status)) {
      throw new DownloadFailure('unavailable', `The server answered with status ${opened.status}.`);
    }
    const continues = opened.status === 206 && opened.headers.etag === etag;
    if (!continues) await place.clear();
    // A range of another file, or of nothing: the next round asks for the whole.
    if (!continues && opened.status !== 200) return;
    const startBytes = continues ? bytesHere : 0;
    refuseOtherSize(entry, opened, startBytes);
    if (!continues) await place.writeOrigin(originOf(opened));
    await append(opened.body, startBytes, entry, place, options);
  } finally {
    opened.body.destroy();
  }
}

async function openFile(
  start: URL,
  headers: Readonly<Record<string, string>>,
  dispatcher: Dispatcher,
  options: FetchOptions,
): Promise<Opened> {
  let url = start;
  let promisedSha256: string | undefined;
  for (let hop = 0; hop <= mostRedirects; hop++) {
    refuseUnsafe(url, start);
    const answer = await request(url, { headers, dispatcher, signal: options.signal });
    // A body that is let go before its end says so; nobody has to hear it.
    answer.body.on('error', () => undefined);
    promisedSha256 ??= sha256In(answer.headers['x-linked-etag']);
    const { location } = answer.headers;
    if (answer.statusCode < 300 || answer.statusCode >= 400 || typeof location !== 'string') {
      return { status: answer.statusCode, headers: answer.headers, body: answer.body, promisedSha256 };
    }
    await answer.body.dump();
    url = new URL(location, url);
  }
  throw new DownloadFailure('unavailable', 'The server redirects in circles.');
}

/** Plain HTTP only between this machine and itself, and never after a start on HTTPS. */
function refuseUnsafe(url: URL, start: URL): void {
  const isLoopback = url.hostname === '127.0.0.1' && start.protocol === 'http:';
  if (url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback)) return;
  throw new DownloadFailure('unavailable', 'The server wants to hand the file out without encryption.');
}

/** Said before five gigabytes are fetched, not after. */
function refuseOtherFile(entry: DownloadEntry, promisedSha256: string | undefined): void {
  if (entry.sha256 === null || promisedSha256 === undefined || promisedSha256 === entry.sha256) return;
  throw new DownloadFailure(
    'wrong_content',
    'The server has another file under this name than downloads.json expects.',
  );
}

function refuseOtherSize(entry: DownloadEntry, { status, headers }: Opened, startBytes: number): void {
  const length = Number(headers['content-length'] ?? entry.sizeBytes - startBytes);
  const startsRight = status === 200 || String(headers['content-range']).startsWith(`bytes ${startBytes}-`);
  if (!startsRight || startBytes + length !== entry.sizeBytes) {
    throw new DownloadFailure('wrong_content', 'The file on the server has another size than downloads.json expects.');
  }
}

/** Chunk by chunk, so that whatever was reported is on the disk when the connection breaks. */
async function append(
  body: AsyncIterable<Buffer>,
  startBytes: number,
  entry: DownloadEntry,
  place: Workplace,
  options: FetchOptions,
): Promise<void> {
  let receivedBytes = startBytes;
  const file = await open(place.bytesPath, 'a');
  try {
    for await (const chunk of body) {
      receivedBytes += chunk.length;
      if (receivedBytes > entry.sizeBytes) {
        throw new DownloadFailure('wrong_content', 'The server sends more than the file should have.');
      }
      await file.writeFile(chunk);
      options.onProgress({ receivedBytes, totalBytes: entry.sizeBytes });
    }
  } finally {
    await file.close();
  }
}

function originOf({ headers, promisedSha256 }: Opened): Origin {
  // A weak ETag does not promise the same bytes.
  const etag = headers.etag?.startsWith('"') ? headers.etag : undefined;
  return { ...(etag !== undefined && { etag }), ...(promisedSha256 !== undefined && { promisedSha256 }) };
}

function sha256In(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? /^"?([0-9a-f]{64})"?$/.exec(header)?.[1] : undefined;
}

const diskCodes = new Set(['ENOSPC', 'EDQUOT', 'EACCES', 'EPERM', 'EROFS', 'EIO']);

/** Error codes name no host; messages of the network do. */
function lostConnection(thrown: unknown): DownloadFailure {
  const code = thrown instanceof Error && 'code' in thrown ? String(thrown.code) : 'unknown';
  const what = diskCodes.has(code) ? 'The disk refused to take it' : 'The connection failed';
  return new DownloadFailure('unavailable', `${what} (${code}).`, thrown);
}
