import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { DownloadEntry } from '../../../src/inference/downloads/entry.ts';
import { type PulledModel, type PullOptions, pullModel } from '../../../src/inference/downloads/pull.ts';
import type { PullProgress } from '../../../src/inference/downloads/source.ts';
import { type Answer, type Listener, listenOnLoopback, waitUntil } from '../../support/loopback/listener.ts';

export const weights = Buffer.from(Array.from({ length: 200_000 }, (_, index) => (index * 7919) % 251));

export const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

export const weightsPath = '/owner/tiny/resolve/0123456789abcdef0123456789abcdef01234567/tiny.gguf';

export const hubEntry: DownloadEntry = {
  id: 'tiny',
  title: 'Tiny',
  role: 'expert',
  file: 'tiny.gguf',
  sizeBytes: weights.length,
  sha256: hashOf(weights),
  source: { kind: 'huggingface', repository: 'owner/tiny', revision: '0123456789abcdef0123456789abcdef01234567' },
  licence: { name: 'Apache-2.0' },
};

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'orchestra-downloads-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export async function startHub(answer: Answer): Promise<Listener> {
  const hub = await listenOnLoopback(answer);
  onTestFinished(() => hub.close());
  return hub;
}

/** How far a pull has come, for a server that waits for it. */
export interface Arrival {
  receivedBytes: number;
  readonly onProgress: (progress: PullProgress) => void;
}

export function watchArrival(): Arrival {
  const arrival: Arrival = {
    receivedBytes: 0,
    onProgress: (progress) => {
      arrival.receivedBytes = progress.receivedBytes;
    },
  };
  return arrival;
}

interface Serving {
  readonly bytes?: Buffer;
  readonly etag?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sends so many bytes and destroys the connection once they have arrived. */
  readonly cut?: { readonly afterBytes: number; readonly arrival: Arrival };
  readonly ignoresRanges?: boolean;
}

/** Serves one file as a hub's storage does: ranges, If-Range and a strong ETag. */
export function serve({
  bytes = weights,
  etag = '"one"',
  headers = {},
  cut,
  ignoresRanges = false,
}: Serving = {}): Answer {
  return async (request, response) => {
    const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
    const isPart = range !== null && !ignoresRanges && request.headers['if-range'] === etag;
    const start = isPart ? Number(range[1]) : 0;
    const part = bytes.subarray(start);
    response.writeHead(isPart ? 206 : 200, {
      etag,
      'content-length': part.length,
      ...(isPart && { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` }),
      ...headers,
    });
    if (cut === undefined) {
      response.end(part);
      return;
    }
    response.write(part.subarray(0, cut.afterBytes));
    await waitUntil(() => cut.arrival.receivedBytes >= cut.afterBytes, 'the bytes before the cut');
    request.cut();
  };
}

/** Answers the first request with the first answer, and so on; the last one for all that follow. */
export function inTurn(...answers: readonly [Answer, ...Answer[]]): Answer {
  return (request, response) => (answers[request.attempt - 1] ?? answers.at(-1) ?? answers[0])(request, response);
}

export const status =
  (code: number): Answer =>
  async (_request, response) => {
    response.writeHead(code).end();
  };

export function pullFrom(
  hub: { readonly origin: string },
  folder: string,
  options: Partial<PullOptions> & { readonly entry?: DownloadEntry } = {},
): Promise<PulledModel> {
  const { entry = hubEntry, ...rest } = options;
  return pullModel(entry, {
    folder,
    acceptLicence: false,
    signal: new AbortController().signal,
    environment: { HF_ENDPOINT: hub.origin },
    ...rest,
  });
}
