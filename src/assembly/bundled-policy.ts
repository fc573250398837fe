import { setTimeout as sleep } from 'node:timers/promises';
import { findModel } from '../inference/downloads/catalog.ts';
import type { Policy } from '../router/policy.ts';
import { bundledModel, type Config } from './config.ts';
import type { ModelsPlace } from './engines.ts';
import { hasCardsToRead, type OpenedLlama, type OpenedPolicy, openLlama, type PolicyKnowledge } from './policy.ts';
import type { WarmUp } from './warm-up.ts';

/** Slower than this, a caller is better served by `estimate` at once: five cards take one core about 2 s. */
const usualDecisionMs = 5_000;
/** Cards are short, and longer documents are cut for them: more would only hold memory. */
const contextTokens = 4096;
const usualRecheckMs = 30_000;

/** The one thing about a gateway that changes while it serves. */
export interface PolicyInUse {
  opened: OpenedPolicy;
}

export interface SettleOptions {
  readonly config: Config;
  readonly place: ModelsPlace;
  readonly knowledge: PolicyKnowledge;
  /** By whoever builds the gateway: then the configuration does not matter. */
  readonly isGiven: boolean;
  /** How often to look whether the bundled policy's base has come. */
  readonly recheckMs: number | undefined;
  /** Has a policy read what all first turns begin with. */
  warm(policy: Policy): WarmUp;
  /** Told what was in use, and why it came to nothing where that is an error of ours. */
  changed(before: OpenedPolicy, cause?: unknown): void;
}

/**
 * Warms the opened policy up, or brings in the bundled one beside a gateway that serves already, as soon as its base is
 * here and read; `estimate` decides until then.
 */
export function settlePolicy(inUse: PolicyInUse, options: SettleOptions): Pick<WarmUp, 'stop'> {
  const { opened } = inUse;
  if (options.isGiven || options.config.policy.backend !== 'bundled' || !hasCardsToRead(options.config)) {
    return opened.engine ? options.warm(opened.policy) : { stop: async () => undefined };
  }
  const use = (next: Partial<OpenedPolicy>, cause?: unknown) => {
    inUse.opened = { ...opened, ...next };
    options.changed(opened, cause);
  };
  const leaving = new AbortController();
  const done = bringIn(options, leaving.signal).then(
    (found) => found && use('policy' in found ? { ...found, fallback: opened.policy } : found),
    (error: unknown) => {
      if (leaving.signal.aborted) return;
      use({ note: `policy: estimate, because ${bundledModel} could not be started; the log has the cause` }, error);
    },
  );
  return {
    async stop() {
      leaving.abort();
      await done;
    },
  };
}

/** Only a note where it cannot be had; undefined when the gateway closes first. */
async function bringIn(
  { config, place, knowledge, recheckMs = usualRecheckMs, warm }: SettleOptions,
  signal: AbortSignal,
): Promise<Pick<OpenedPolicy, 'note'> | OpenedLlama | undefined> {
  while (!(await findModel(bundledModel, place.folder)).present) {
    await sleep(recheckMs, undefined, { signal, ref: false });
  }
  // The local expert computes on the other cores.
  const { threads = 1, context = contextTokens, decision_ms = usualDecisionMs } = config.policy;
  const settings = { ...config.policy, threads, context, decision_ms };
  const found = await openLlama(bundledModel, settings, place, knowledge);
  if (!('policy' in found)) return { note: `policy: estimate, because ${found.note}` };
  const warming = warm(found.policy);
  const stop = () => void warming.stop();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  await warming.done;
  signal.removeEventListener('abort', stop);
  if (!signal.aborted) return { ...found, note: takenOverNote(found) };
  await found.engine.close();
  return undefined;
}

const takenOverNote = ({ note }: OpenedLlama): string =>
  `${note}, one card at a time; estimate stands in where it is late or fails, and decides alone with \`policy: { backend: estimate }\``;
