export type DownloadFailureKind =
  | 'unknown_model'
  | 'licence_not_accepted'
  /** Could not be fetched now; the message says how to do it by hand. */
  | 'unavailable'
  /** What came is not what the catalog promises. */
  | 'wrong_content';

/** Meant for the operator's eyes: says what to do, and names no host or address that the environment chose. */
export class DownloadFailure extends Error {
  readonly kind: DownloadFailureKind;

  constructor(kind: DownloadFailureKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'DownloadFailure';
    this.kind = kind;
  }
}
