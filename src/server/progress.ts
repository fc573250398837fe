import type { RunEvent } from '../router/run.ts';
import { candidateReport, type Report, turnReport } from './report.ts';

type WorkEvent = Exclude<RunEvent, { type: 'answer-delta' }>;

/** One line a decision for people who watch; undefined where there is nothing to say. */
export function progressLine(event: WorkEvent): string | undefined {
  if (event.type !== 'decision-made') return undefined;
  const { turn, role, slot, model, probability } = event;
  return `Turn ${turn}: ${role} with ${model} (${slot}, p = ${probability.toFixed(2)})\n`;
}

/** The same for programs, in the words of the report. */
export function liveEvent(event: WorkEvent): Report {
  if (event.type === 'turn-start') return { type: event.type, turn: event.turn };
  if (event.type === 'turn-end') return { type: event.type, ...turnReport(event.record) };
  const { type, turn, role, slot, model, probability, candidates } = event;
  return { type, turn, role, slot, model, probability, candidates: candidates.map(candidateReport) };
}
