import type { FastifyServerOptions } from 'fastify';
import type { Ledger } from '../cost/ledger.ts';
import type { PriceBook } from '../cost/price-book.ts';
import type { Ceiling, Profile, RequestedPreferences } from '../preferences/schema.ts';
import type { Slot } from '../preferences/slot.ts';
import type { Orchestrator, RunRecord } from '../router/run.ts';
import type { RunStore } from '../store/runs.ts';
import type { SpendingStore } from '../store/spending.ts';
import type { Relay } from '../upstream/relay.ts';

/** Who may call, and what the caller may ask for at most. */
export interface GatewayKey {
  readonly name: string;
  /** SHA-256 of the secret, lower-case hex: the secret itself is never kept. */
  readonly sha256: string;
  readonly ceiling: Ceiling;
}

/** A model that is served without the loop, as `UPSTREAM/MODEL`. */
export interface RelayedModel {
  /** Its facts, in the words that limits understand: role `answer`, `id` and `model` both `UPSTREAM/MODEL`. */
  readonly slot: Slot;
  /** What its tokens are billed under; must be in the price book. */
  readonly meter: string;
  /** The name that the upstream itself uses. */
  readonly upstreamModel: string;
}

/** One upstream and the models of it that clients may name. */
export interface RelayedUpstream {
  readonly relay: Relay;
  /** Shown in `/v1/models`. */
  readonly listed: readonly RelayedModel[];
  /** Resolves a name behind `UPSTREAM/`, listed or admitted by a pattern such as `openai/*`. */
  find(upstreamModel: string): RelayedModel | undefined;
}

export type SlotHealth = 'available' | 'recovering' | 'unavailable';

interface Readiness {
  readonly ready: boolean;
  /** Sentences for the operator: what is missing, or what stands in for it. */
  readonly notes: readonly string[];
}

export interface ServerLimits {
  /** Largest request body, after decompression too. */
  readonly bodyBytes: number;
  /** Most orchestrated requests at work at once. */
  readonly runs: number;
  /** Of a run, and of a relay that is billed by the second. */
  readonly runTimeoutMs: number;
}

export interface ServerTimings {
  /** Silence after which a comment keeps a stream alive. */
  readonly keepAliveMs: number;
  /** Silence after which a stream is opened with its role chunk although nothing is written yet. */
  readonly openAfterMs: number;
  /** How long a client may leave what it was sent unread before it counts as gone. */
  readonly unreadMs: number;
  /** How long streams may go on after shutdown began. */
  readonly drainMs: number;
}

export const defaultLimits: ServerLimits = { bodyBytes: 64 * 1024 * 1024, runs: 64, runTimeoutMs: 600_000 };
export const defaultTimings: ServerTimings = {
  keepAliveMs: 15_000,
  openAfterMs: 10_000,
  unreadMs: 120_000,
  drainMs: 30_000,
};

/** Everything that the server works with; it builds nothing itself but the HTTP application. */
export interface ServerParts {
  readonly orchestrator: Orchestrator;
  readonly runs: RunStore;
  readonly spending: SpendingStore;
  readonly ledger: Ledger;
  readonly prices: PriceBook;
  /** What the loop can choose. */
  readonly slots: readonly Slot[];
  readonly slotHealth: (slotId: string) => SlotHealth;
  /** By the upstream's configured name. */
  readonly relays: ReadonlyMap<string, RelayedUpstream>;
  /** Built-in and configured profiles; each is also a model `orchestra:NAME`. */
  readonly profiles: Readonly<Record<string, Profile>>;
  /** Undefined: no authentication, every caller is `anonymous`. */
  readonly keys: readonly GatewayKey[] | undefined;
  /** The ceiling of anonymous callers. */
  readonly anonymousCeiling: Ceiling;
  /** What stands when a request says nothing. */
  readonly defaultPreferences: RequestedPreferences;
  readonly readiness: () => Readiness;
  /** Name of the policy that decides now. */
  readonly policy: () => string;
  readonly limits: ServerLimits;
  readonly timings: ServerTimings;
  /** Drops everything that OpenAI's API does not have, for every request. */
  readonly strict: boolean;
  /** Whether requests and answers are kept beside their records; those of private runs never are. */
  readonly keepTexts: boolean;
  /** Told what the owner of a run said of its answer, and what was said before. */
  readonly onFeedback?: (record: RunRecord, score: number, scoreBefore: number | undefined) => void;
  readonly now: () => number;
  /** At least 24 characters of `[A-Za-z0-9]`, never the same twice. */
  readonly newId: () => string;
  /** Fastify's logger option; `false` is silent. */
  readonly logger: Exclude<FastifyServerOptions['logger'], undefined>;
}
