import type { PrivacyClass } from '../preferences/privacy.ts';

export interface EvidenceDocument {
  readonly text: string;
  /** Where it came from (`docs`, `tavily`) and what to cite. */
  readonly source: string;
  readonly title?: string;
  readonly url?: string;
  readonly privacy: PrivacyClass;
}

export interface CodeRun {
  readonly code: string;
  readonly output: string;
}

export interface Attempt {
  /** `attempt-1`, `attempt-2`, …: how the policy names it when it delivers one. */
  readonly id: string;
  readonly slot: string;
  readonly text: string;
  /** Id of the earliest attempt with an equal final answer, where equality can be told. */
  readonly agreesWith?: string;
}

/** What the run has learnt so far. The policy sees only this, cut to its budgets, and the problem. */
export interface Evidence {
  /** Best document last, so that it survives a cut that keeps the tail. */
  readonly documents: readonly EvidenceDocument[];
  readonly codeRuns: readonly CodeRun[];
  readonly attempts: readonly Attempt[];
}

export const noEvidence: Evidence = { documents: [], codeRuns: [], attempts: [] };

/** What a tool gave back. A failure is an observation too, never an exception of the run. */
export type Observation =
  | { readonly kind: 'documents' /** Best first, as retrieved. */; readonly documents: readonly EvidenceDocument[] }
  | { readonly kind: 'code_run'; readonly run: CodeRun }
  | { readonly kind: 'attempt'; readonly slot: string; readonly text: string }
  | { readonly kind: 'answer'; readonly text: string }
  | FailedObservation;

export interface FailedObservation {
  readonly kind: 'failed';
  /** Safe to show: no host, no key, no text of the request. */
  readonly reason: string;
  /** Whether the same slot may be tried again. */
  readonly retryable: boolean;
  /** The upstream's kind of failure (`rate_limited`, `context_length_exceeded`, …), where one call was to blame. */
  readonly failure?: string;
  readonly retryAfterMs?: number;
}
