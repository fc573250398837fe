import type { Rates } from '../cost/rates.ts';
import { type PrivacyClass, strictestPrivacy } from './privacy.ts';

/** What a slot is for. The policy may also decide `attempt`, which uses answer slots (contract `slots-2`). */
export const slotRoles = ['search', 'enhance_reasoning', 'answer'] as const;
export type SlotRole = (typeof slotRoles)[number];

export type Modality = 'text' | 'image' | 'audio' | 'file';

/** What a search slot asks, and what a limit can take away from it. */
export interface SlotSource {
  readonly name: string;
  readonly upstream: 'local' | 'web';
  /** Weakest of all that see a query to it: itself, and whoever writes the query. */
  readonly privacy: PrivacyClass;
}

/** One anonymous choice inside a role, with everything that limits, weights and prices can see. */
export interface Slot {
  /** Shown to the policy: `answer-1`. Never a brand name. */
  readonly id: string;
  readonly role: SlotRole;
  /** Who is behind it, for reports: `openai/gpt-5`, `local/smollm2`. Never shown to the policy. */
  readonly model: string;
  /** The upstream's configured name, or `local`; what `upstream:` selectors match. */
  readonly upstream: string;
  /** Configured tools behind it (`docs`, `tavily`, `python`); what `tool:` selectors match. */
  readonly tools: readonly string[];
  /** Of a search slot: the same tools, in the order in which they are asked. */
  readonly sources?: readonly SlotSource[];
  /** Of a search slot: the slot whose expert writes the query. */
  readonly writer?: string;
  /** One sentence on what it is good at: all that the policy knows besides price and latency. */
  readonly quality: string;
  /** Chance of a right answer by domain, 0 to 1, where measured. */
  readonly skills: Readonly<Record<string, number>>;
  /** What its own meter charges; undefined when the operator declared the price unknown. */
  readonly rates: Rates | undefined;
  /** Typical wall time of one call, shown to the policy. */
  readonly latencyMs: number;
  /** Weakest class of all that sees a byte of the request through this slot. */
  readonly privacy: PrivacyClass;
  readonly regions: readonly string[];
  readonly contextTokens: number;
  readonly maxOutputTokens: number;
  /** Most tokens that one request can hold, as its maker or the operator says; undefined where nobody does. */
  readonly windowTokens?: number | undefined;
  /** Most tokens that one picture is billed as, where that is known. */
  readonly pictureTokens?: number | undefined;
  /** What it usually writes, where that is known: for expectations, never for holds. */
  readonly typicalOutputTokens?: number;
  readonly input: readonly Modality[];
  /** Whether it accepts client tools. */
  readonly clientTools: boolean;
  /** Whether it honours `response_format: json_schema`. */
  readonly jsonSchema: boolean;
}

/** The facts of a search slot that follow from its sources. It promises what its strictest one can: others may fall. */
export const sourceFacts = (sources: readonly SlotSource[]) => ({
  sources,
  tools: sources.map(({ name }) => name),
  upstream: sources.some(({ upstream }) => upstream === 'web') ? 'web' : 'local',
  privacy: strictestPrivacy(...sources.map(({ privacy }) => privacy)),
});
