import { applyObservation } from '../contract/apply.ts';
import { type Evidence, type FailedObservation, noEvidence, type Observation } from '../contract/evidence.ts';
import { problemFromChat } from '../contract/problem.ts';
import type { Budget } from '../cost/ledger.ts';
import { mergeLines, type PricedUsage } from '../cost/price-book.ts';
import { promptTokensOf, type Usage } from '../cost/usage.ts';
import { type LimitApplied, maskSlots, tightenPrivacy } from '../preferences/limits.ts';
import { isPrivate, type PrivacyClass, satisfiesPrivacy, strictestPrivacy } from '../preferences/privacy.ts';
import type { Slot } from '../preferences/slot.ts';
import type { Weights } from '../preferences/weights.ts';
import type { FinishReason } from '../upstream/chat.ts';
import type { ForcingLimit } from './in-time.ts';
import type { PolicyOpinion } from './policy.ts';
import type { ClientUsage, RunError, RunSpec, RunWarning, TurnRecord } from './run.ts';

interface Answer {
  readonly slot: Slot;
  readonly finishReason: FinishReason;
  readonly missesFormat?: boolean;
  readonly usage: ClientUsage;
}

/** What one run knows and did so far. The loop reads and writes it; nothing outlives the run but its record. */
export class RunState {
  readonly spec: RunSpec;
  readonly budget: Budget;
  readonly startedAtMs: number;
  readonly problem: string;
  readonly conversation: string;
  readonly turns: TurnRecord[] = [];
  readonly warnings: RunWarning[] = [];
  readonly failures = new Map<string, FailedObservation & Pick<Slot, 'role'>>();
  readonly excluded = new Map<string, string>();
  readonly limitsApplied: LimitApplied[];
  admissible: readonly Slot[];
  evidence: Evidence = noEvidence;
  lines: PricedUsage[] = [];
  answer: Answer | undefined;
  error: RunError | undefined;
  forcedBy: ForcingLimit | undefined;
  /** Why the first slot that could not hold to the request's schema could not; for the client alone. */
  schemaReason: string | undefined;
  textSent = false;
  domains: ReadonlyMap<string, number> | undefined;
  private weightsRead: Weights | undefined;
  /** Strictest class of all documents that were ever taken in: what was written since may be made of them. */
  private documentClass: PrivacyClass = 'any';
  /** How the attempts in the evidence ended, by id. */
  private readonly attempts = new Map<string, Answer>();

  constructor(spec: RunSpec, slots: readonly Slot[], budget: Budget, startedAtMs: number) {
    const { problem, conversation } = problemFromChat(spec.messages);
    const { admissible, applied } = maskSlots(slots, spec.preferences, spec.needs);
    this.spec = spec;
    this.budget = budget;
    this.startedAtMs = startedAtMs;
    this.problem = problem;
    this.conversation = conversation;
    this.admissible = admissible;
    this.limitsApplied = [...applied];
  }

  /** Least class that may see the run's bytes: what the request asked for, or more once evidence is confidential. */
  get privacy(): PrivacyClass {
    return strictestPrivacy(this.spec.preferences.limits.privacy, this.documentClass);
  }

  get privateTo(): string | undefined {
    return isPrivate(this.privacy) ? this.spec.keyName : undefined;
  }

  /** What the caller cares about: as a policy read it in the instruction, else in numbers. */
  get weights(): Weights {
    return this.weightsRead ?? this.spec.preferences.weights;
  }

  /** Takes over what a policy read in the request's own words. */
  learn({ domains, weights }: Pick<PolicyOpinion, 'domains' | 'weights'>): void {
    this.domains ??= domains;
    this.weightsRead ??= weights;
  }

  warn(code: string, message: string): void {
    if (!this.warnings.some((warning) => warning.code === code)) this.warnings.push({ code, message });
  }

  book(lines: readonly PricedUsage[]): void {
    this.lines = mergeLines([...this.lines, ...lines]);
  }

  giveUp(slot: Slot, failure: FailedObservation): void {
    this.failures.set(slot.id, { ...failure, role: slot.role });
    this.excluded.set(slot.id, failure.reason);
  }

  /** Takes in what a slot found. Documents that no answering slot may see are dropped, so that the run can still end. */
  observe(observation: Observation, slot: Slot): void {
    const usable = observation.kind === 'documents' ? this.withoutUnusable(observation) : observation;
    const before = sizeOf(this.evidence);
    this.evidence = applyObservation(this.evidence, usable);
    if (sizeOf(this.evidence) === before) this.excluded.set(slot.id, 'it brought nothing new');
    this.documentClass = strictestPrivacy(this.documentClass, ...this.evidence.documents.map(({ privacy }) => privacy));
    this.tightenTo(this.privacy);
  }

  /** Leaves out the least of what was found, and whoever would find it again; false when there is nothing left. */
  leaveOutLeast(): boolean {
    const { documents, codeRuns } = this.evidence;
    if (documents.length + codeRuns.length === 0) return false;
    const [role, rest] =
      documents.length > 0
        ? (['search', { documents: documents.slice(1) }] as const)
        : (['enhance_reasoning', { codeRuns: codeRuns.slice(1) }] as const);
    this.evidence = { ...this.evidence, ...rest };
    for (const slot of this.admissible) if (slot.role === role) this.excluded.set(slot.id, 'too dear to read');
    this.warn('evidence_too_dear', 'The money left did not cover an answer that reads all that was found.');
    return true;
  }

  /** Keeps an answer for comparison; it may be delivered later as it stands. */
  keepAttempt(text: string, answer: Answer): void {
    this.evidence = applyObservation(this.evidence, { kind: 'attempt', slot: answer.slot.id, text });
    const attempt = this.evidence.attempts.at(-1);
    if (attempt) this.attempts.set(attempt.id, answer);
  }

  conclude(answer: Answer): void {
    this.answer = answer;
    if (answer.missesFormat) this.warn('format_missed', 'The answer is not what `response_format` asks for.');
  }

  deliver(attemptId: string, slot: Slot): void {
    this.conclude(
      this.attempts.get(attemptId) ?? { slot, finishReason: 'stop', usage: this.clientUsage(undefined, 0) },
    );
  }

  /**
   * The client's own conversation and the visible answer; hidden calls are in the cost report instead.
   * @param ownShare what part of the reported input the client itself sent; undefined where nobody knows
   */
  clientUsage(reported: Usage | undefined, written: number, ownShare?: number): ClientUsage {
    const share = ownShare ?? (sizeOf(this.evidence) === 0 ? 1 : undefined);
    const promptTokens =
      reported && share !== undefined
        ? Math.ceil(promptTokensOf(reported) * share)
        : Math.max(1, this.spec.needs.contextTokens);
    return {
      promptTokens,
      completionTokens: reported ? reported.outputTokens + reported.reasoningTokens : Math.ceil(written / 4),
      reasoningTokens: reported?.reasoningTokens ?? 0,
      // What the run has learnt stands behind the conversation, so a cache holds that first.
      cachedTokens: Math.min(promptTokens, reported?.cacheReadTokens ?? 0),
    };
  }

  /** Lets what was sent so far stand as the answer; false when nothing was. */
  standAsCut(): boolean {
    const turn = this.turns.at(-1);
    const slot = this.admissible.find(({ id }) => id === turn?.slot);
    if (!this.textSent || !slot) return false;
    const usage = this.clientUsage(this.lines.find(({ meter }) => meter === slot.id)?.usage, 0);
    this.answer = { slot, finishReason: 'length', usage };
    return true;
  }

  private withoutUnusable(observation: Observation & { kind: 'documents' }): Observation {
    const answers = this.admissible.filter(({ id, role }) => role === 'answer' && !this.excluded.has(id));
    const documents = observation.documents.filter((document) =>
      answers.some(({ privacy }) => satisfiesPrivacy(privacy, document.privacy)),
    );
    if (documents.length < observation.documents.length) {
      this.warn('evidence_dropped', 'Some documents were left out: no admissible answer slot may see their class.');
    }
    return { kind: 'documents', documents };
  }

  private tightenTo(required: PrivacyClass): void {
    const { admissible, applied } = tightenPrivacy(this.admissible, required);
    this.admissible = admissible;
    this.limitsApplied.push(...applied);
  }
}

const sizeOf = ({ documents, codeRuns, attempts }: Evidence): number =>
  documents.length + codeRuns.length + attempts.length;
