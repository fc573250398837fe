export interface PullProgress {
  readonly receivedBytes: number;
  readonly totalBytes: number;
}

/** What every source is given to do its work. */
export interface FetchOptions {
  readonly signal: AbortSignal;
  /** The environment of the process: pip's index, proxies, certificates and `HF_ENDPOINT`, a mirror of Hugging Face. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** A source from which nothing comes for so long is given up. */
  readonly silenceMs: number;
  readonly onProgress: (progress: PullProgress) => void;
}
