import { countCodePoints, keepHead } from './code-points.ts';
import { type Block, blockText, keepNewest, shorten } from './cut.ts';
import type { Attempt, CodeRun, Evidence, EvidenceDocument } from './evidence.ts';
import { fill } from './fill.ts';
import type { SharedTexts } from './schema.ts';

/** How a document is introduced; the number counts from 1. */
export type DocumentLabel = (document: EvidenceDocument, number: number) => string;

/** As policies were trained: the number alone. */
const numbered =
  ({ labels }: SharedTexts): DocumentLabel =>
  (_, number) =>
    fill(labels.document, { number: String(number) });

/** For experts, who may cite: with title and address, cut and on one line, since both are as hostile as the text. */
export const sourced =
  (contract: SharedTexts): DocumentLabel =>
  (document, number) => {
    const { documentFrom, documentTitleCodePoints, documentUrlCodePoints } = contract.expert;
    const from = [
      keepHead(onOneLine(document.title), documentTitleCodePoints),
      keepHead(onOneLine(document.url), documentUrlCodePoints),
    ].filter((part) => part !== '');
    if (from.length === 0) return numbered(contract)(document, number);
    return fill(documentFrom, { number: String(number), from: from.join(', ') });
  };

const onOneLine = (text = ''): string => text.replace(/\s+/g, ' ').trim();

/**
 * Documents, code runs and attempts in the trained order and form, at most `limit` code points.
 * Attempts are cut first, to their share; then code, to what attempts leave of the share of both; documents get the
 * rest, and are left out where there is none.
 */
export function evidenceText(
  evidence: Evidence,
  limit: number,
  contract: SharedTexts,
  documentLabel: DocumentLabel = numbered(contract),
): string {
  const { promptTokens, codeAndAttemptsTokens, attemptsTokens } = contract.budgets;
  const share = (tokens: number): number => Math.floor((limit * tokens) / promptTokens);
  const attempts = attemptsText(evidence.attempts, share(attemptsTokens), contract);
  const codeLimit = share(codeAndAttemptsTokens) - countCodePoints(attempts);
  const code = keepNewest(codeBlocks(evidence.codeRuns, contract), codeLimit);
  const rest = limit - countCodePoints(code) - countCodePoints(attempts);
  return documentsText(evidence.documents, rest, contract, documentLabel) + code + attempts;
}

function documentsText(
  documents: readonly EvidenceDocument[],
  limit: number,
  { labels, budgets }: SharedTexts,
  documentLabel: DocumentLabel,
): string {
  const blocks = documents.map((document, index) => ({
    open: documentLabel(document, index + 1),
    body: keepHead(document.text, budgets.documentCodePoints, labels.ellipsis),
    close: '\n\n',
  }));
  const kept = keepNewest(blocks, limit - countCodePoints(labels.documents));
  return kept === '' ? '' : labels.documents + kept;
}

/** Code and output are blocks of their own, so that a cut always leaves the fence above what it kept. */
function codeBlocks(runs: readonly CodeRun[], { labels }: SharedTexts): Block[] {
  return runs.flatMap(({ code, output }) => [
    { open: labels.codeOpen, body: code, close: labels.fenceClose },
    { open: labels.outputOpen, body: output, close: labels.fenceClose },
  ]);
}

/** Each attempt has an equal share: none pushes another out, since each may still be delivered. */
function attemptsText(attempts: readonly Attempt[], limit: number, contract: SharedTexts): string {
  const { labels } = contract;
  const share = Math.floor(limit / Math.max(1, attempts.length));
  return attempts
    .map((attempt) => ({
      open: fill(labels.attempt, { number: numberOf(attempt.id), slot: attempt.slot }),
      body: attempt.text,
      close: `\n${agreementText(attempt, labels.agreement)}`,
    }))
    .map((block) => shorten(block, share))
    .map((block) => (block === undefined ? '' : blockText(block)))
    .join('');
}

function agreementText({ id, agreesWith }: Attempt, label: string): string {
  return agreesWith === undefined ? '' : fill(label, { number: numberOf(id), earlier: numberOf(agreesWith) });
}

const numberOf = (attemptId: string): string => attemptId.replace(/^attempt-/, '');
