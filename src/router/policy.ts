import type { Attempt, Evidence } from '../contract/evidence.ts';
import type { NanoUsd } from '../cost/money.ts';
import type { Usage } from '../cost/usage.ts';
import type { PrivacyClass } from '../preferences/privacy.ts';
import type { Slot, SlotRole } from '../preferences/slot.ts';
import type { WeightAxis, Weights } from '../preferences/weights.ts';

/** `attempt` has an answer slot write an answer that is kept, not delivered (contract `slots-2`). */
export type DecisionRole = SlotRole | 'attempt';

/** One admissible choice of this turn. */
export interface Candidate {
  /** How the policy names it: the slot's id, or `attempt-N` for delivering that attempt. */
  readonly id: string;
  readonly role: DecisionRole;
  /** Who would be called; for a delivery, who wrote the attempt. */
  readonly slot: Slot;
  /** Set for the delivery of an attempt as it stands: an `answer` that is free and immediate. */
  readonly delivers: Attempt | undefined;
  readonly expectedLatencyMs: number;
  /** Expected price of choosing it now; undefined when its price is unknown. */
  readonly expectedCost: NanoUsd | undefined;
}

export interface PolicyInput {
  readonly problem: string;
  /** Earlier turns of the client's chat as one text, empty when there are none. */
  readonly conversation: string;
  readonly evidence: Evidence;
  readonly candidates: readonly Candidate[];
  readonly weights: Weights;
  /** Axes whose weight the caller gave as a number: no reading of the instruction overrules them. */
  readonly statedWeights: readonly WeightAxis[];
  readonly instruction: string | undefined;
  /** 1 on the first turn. */
  readonly turn: number;
  readonly turnsLeft: number;
  /** Of the whole run, when it is asked. */
  readonly timeLeftMs: number;
  readonly seed: number;
  /** Name of the key that asks; what it was told before may be remembered for it alone. */
  readonly askedBy: string;
  /** Owner of a private run, whose traces in a model's cache nobody else may use. */
  readonly privateTo: string | undefined;
  readonly signal: AbortSignal;
}

/** What a policy thinks of the candidates, in their order. */
export interface PolicyOpinion {
  /** π: sums to 1 over the candidates. */
  readonly probabilities: readonly number[];
  /** Chance that choosing it ends in a right answer, where the policy can tell. */
  readonly pRight?: readonly number[];
  /** True when prices and weights are already in π (expected utility), so that no tilt follows. */
  readonly weighted: boolean;
  /** What the caller cares about, where the policy read it in the instruction; counts from this turn on. */
  readonly weights?: Weights;
  readonly thought?: string;
  /** Chance of each domain that the cards name, where the policy reads problems; feedback is counted by it. */
  readonly domains?: ReadonlyMap<string, number>;
  readonly usage: Usage;
  /** True when whoever bills the usage gave no figure. */
  readonly estimated?: boolean;
}

/** A decision that was not made, although it was worked on: what that consumed is billed all the same. */
export class PolicyFailure extends Error {
  readonly usage: Usage;
  readonly estimated: boolean;

  constructor(message: string, usage: Usage, estimated: boolean) {
    super(message);
    this.name = 'PolicyFailure';
    this.usage = usage;
    this.estimated = estimated;
  }
}

/** Who sees the prompts of a policy that does not run here. */
export interface PolicyPlace {
  readonly upstream: string;
  readonly privacy: PrivacyClass;
  readonly regions: readonly string[];
}

/** Decides one turn. Rejects with EngineFailure, PolicyFailure or OrchestraError; the fallback then decides. */
export interface Policy {
  readonly name: string;
  readonly backend: 'llama' | 'remote' | 'estimate' | 'scripted';
  readonly contract: string;
  /** The most that one decision can consume; free policies say `noUsage`. */
  readonly bound: Usage;
  /** Left out by policies that run in this process. */
  readonly place?: PolicyPlace;
  decide(input: PolicyInput): Promise<PolicyOpinion>;
}
