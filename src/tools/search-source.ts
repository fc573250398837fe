import type { EvidenceDocument } from '../contract/evidence.ts';
import type { Usage } from '../cost/usage.ts';
import type { PrivacyClass } from '../preferences/privacy.ts';

export interface SearchRequest {
  readonly query: string;
  /** Most documents wanted. */
  readonly limit: number;
  readonly signal: AbortSignal;
}

export interface Found {
  /** Best first. */
  readonly documents: readonly EvidenceDocument[];
  readonly usage: Usage;
  readonly estimated?: boolean;
}

/** A place to look things up: an index of our own or a search engine. */
export interface SearchSource {
  readonly name: string;
  /** What bills it: `tool:tavily`. */
  readonly meter: string;
  /** Class of whoever sees the query. What is found carries a class of its own. */
  readonly privacy: PrivacyClass;
  /** The most that one search consumes. */
  readonly mostUsage: Usage;
  /** After which a search is given up; undefined where only the run's deadline ends it. */
  readonly longestMs?: number;
  /** @throws SearchFailure for everything that goes wrong, cancellation excepted (AbortError). */
  search(request: SearchRequest): Promise<Found>;
}

export type SearchFailureKind = 'unauthorized' | 'exhausted' | 'rate_limited' | 'rejected' | 'unavailable';

/** How a search failed, without host, key or query: its message is safe to show. */
export class SearchFailure extends Error {
  readonly kind: SearchFailureKind;
  /** What it may be billed all the same. */
  readonly usage: Usage | undefined;

  constructor(kind: SearchFailureKind, message: string, options: { usage?: Usage; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'SearchFailure';
    this.kind = kind;
    this.usage = options.usage;
  }

  /** Rates recover and servers come back; keys, plans and malformed requests do not mend themselves. */
  get retryable(): boolean {
    return this.kind === 'rate_limited' || this.kind === 'unavailable';
  }
}
