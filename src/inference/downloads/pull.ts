import type { DownloadEntry } from './entry.ts';

export interface PullProgress {
  readonly receivedBytes: number;
  readonly totalBytes: number;
}

export interface PullOptions {
  readonly folder: string;
  readonly acceptLicence: boolean;
  readonly signal: AbortSignal;
  /** What pip inherits: index, proxy and certificates come from here. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly onProgress?: (progress: PullProgress) => void;
}

export interface PulledModel {
  readonly path: string;
  /** Of the file as it lies on disk. */
  readonly sha256: string;
  readonly alreadyThere: boolean;
}

export function pullModel(entry: DownloadEntry, options: PullOptions): Promise<PulledModel> {
  return Promise.reject(new Error(`not yet: ${entry.id} into ${options.folder}`));
}
