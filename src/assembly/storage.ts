import { join } from 'node:path';
import { createLedger, type Ledger, type OnOverrun } from '../cost/ledger.ts';
import type { PriceBook } from '../cost/price-book.ts';
import type { RunRecord } from '../router/run.ts';
import { mostUsageDays } from '../server/run-queries.ts';
import { createChargeStore } from '../store/charges.ts';
import { type Database, openDatabase } from '../store/database.ts';
import { createRunStore, type RunStore } from '../store/runs.ts';
import { createSkillCountStore, type SkillCountStore } from '../store/skill-counts.ts';
import { createSpendingStore, type SpendingStore } from '../store/spending.ts';
import { createWriteQueue } from '../store/write-queue.ts';
import type { Config } from './config.ts';
import { ConfigError } from './load-config.ts';

/** The database and what is kept in it. */
export interface Storage {
  readonly ledger: Ledger;
  readonly runs: RunStore;
  readonly spending: SpendingStore;
  readonly skillCounts: SkillCountStore;
  /** What the owner of a run says of its answer moves the skills that `estimate` reckons with. */
  readonly onFeedback: (record: RunRecord, score: number, scoreBefore: number | undefined) => void;
  readonly keepTexts: boolean;
  readonly notes: readonly string[];
  readonly close: () => void;
}

const dayMs = 86_400_000;

/** @throws ConfigError when the folder cannot hold a database, or another gateway works in it. */
export function openStorage(config: Config, home: string, prices: PriceBook, onOverrun: OnOverrun): Storage {
  const database = openDatabaseIn(config.store === 'memory' ? undefined : home);
  const queue = createWriteQueue(database);
  const runs = createRunStore(database, queue);
  const charges = createChargeStore(database, queue);
  const ledger = createLedger(charges, prices, Date.now, onOverrun);
  const abandoned = ledger.recover();
  const { days } = config.trace;
  const prune = () => {
    runs.prune(Date.now() - days * dayMs);
    charges.prune(Date.now() - Math.max(days, mostUsageDays) * dayMs);
  };
  const stopPruning = pruneDaily(prune);
  const note = `${abandoned} calls that an earlier process left unfinished were booked at their upper bound`;
  const close = () => {
    stopPruning();
    queue.flush();
    database.close();
  };
  const spending = createSpendingStore(database, queue);
  const keepTexts = config.trace.texts === 'on';
  const skillCounts = createSkillCountStore(database);
  const onFeedback: Storage['onFeedback'] = ({ model, domains = {} }, score, scoreBefore) => {
    if (model !== undefined) skillCounts.add(model, new Map(Object.entries(domains)), score, scoreBefore);
  };
  return { ledger, runs, spending, skillCounts, onFeedback, keepTexts, notes: abandoned > 0 ? [note] : [], close };
}

/**
 * Now and once a day. A database that cannot be written then is pruned another day: it must not end a gateway that serves.
 * @throws what the first one throws.
 * @returns what stops it.
 */
export function pruneDaily(prune: () => void): () => void {
  prune();
  const daily = setInterval(() => {
    try {
      prune();
    } catch {}
  }, dayMs).unref();
  return () => clearInterval(daily);
}

/** @throws ConfigError for a home that cannot hold one. */
function openDatabaseIn(home: string | undefined): Database {
  try {
    return openDatabase(home === undefined ? ':memory:' : join(home, 'orchestra.db'));
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : messageOf(error);
    if (reason === 'SQLITE_BUSY') {
      throw new ConfigError([`ORCHESTRA_HOME: another gateway works in ${home}: stop it, or name another folder`]);
    }
    throw new ConfigError([
      `ORCHESTRA_HOME: the database in ${home} cannot be opened (${reason}): name a folder that this user may write`,
    ]);
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : 'unknown reason');
