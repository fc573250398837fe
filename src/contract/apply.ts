import { agree } from './agree.ts';
import type { Attempt, CodeRun, Evidence, EvidenceDocument, Observation } from './evidence.ts';

/** What the run knows after an observation. Answers and failures add nothing; the evidence given is never changed. */
export function applyObservation(evidence: Evidence, observation: Observation): Evidence {
  switch (observation.kind) {
    case 'documents':
      return { ...evidence, documents: withDocuments(evidence.documents, observation.documents) };
    case 'code_run':
      return { ...evidence, codeRuns: withCodeRun(evidence.codeRuns, observation.run) };
    case 'attempt':
      return { ...evidence, attempts: withAttempt(evidence.attempts, observation) };
    case 'answer':
    case 'failed':
      return evidence;
  }
}

/** Attempts that `answer` may deliver: agreeing ones are one choice, under the lowest number. */
export const deliverableAttempts = ({ attempts }: Evidence): readonly Attempt[] =>
  attempts.filter(({ agreesWith }) => agreesWith === undefined);

/** Reverse rank order puts the best document last, where cuts spare it. */
function withDocuments(known: readonly EvidenceDocument[], found: readonly EvidenceDocument[]): EvidenceDocument[] {
  const seen = new Set(known.map(({ text }) => text));
  const fresh = found.filter(({ text }) => !seen.has(text) && seen.add(text));
  return [...known, ...fresh.toReversed()];
}

function withCodeRun(known: readonly CodeRun[], run: CodeRun): readonly CodeRun[] {
  return /[^ \t\r\n]/.test(run.output) ? [...known, run] : known;
}

function withAttempt(known: readonly Attempt[], { slot, text }: { slot: string; text: string }): Attempt[] {
  const attempt = { id: `attempt-${known.length + 1}`, slot, text };
  const equal = known.find((earlier) => agree(earlier.text, text) === true);
  return [...known, equal === undefined ? attempt : { ...attempt, agreesWith: equal.id }];
}
