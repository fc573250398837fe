import type { Database } from './database.ts';

/**
 * Writes that need not be on disk before the caller goes on: they are committed together, some milliseconds later or
 * with the next transaction, whichever comes first. A crash before that leaves a hold where a settlement was due, and
 * holds of a dead process are booked in full: never less than was billed.
 */
export interface WriteQueue {
  defer(write: () => void): void;
  /**
   * Runs one statement now, ahead of what was deferred: it is on disk afterwards.
   * @throws when the database cannot be written, or could not be when what was deferred was due.
   */
  single<Result>(statement: () => Result): Result;
  /** Runs now, in one transaction with everything deferred before. @throws when the database cannot be written. */
  transaction<Result>(work: () => Result): Result;
  /** @throws when the database cannot be written; what was deferred stays deferred, and is tried again by itself. */
  flush(): void;
}

const commitAfterMs = 10;
/** A full disk may be cleared; until then every transaction fails, so no money is spent unrecorded. */
const retryAfterMs = 1_000;

export function createWriteQueue(database: Database): WriteQueue {
  let waiting: (() => void)[] = [];
  let timer: NodeJS.Timeout | undefined;
  let stuck = false;
  const immediately = database.transaction((work: () => void) => work()).immediate;

  const transaction = <Result>(work: () => Result): Result => {
    const writes = waiting;
    waiting = [];
    let result: { readonly value: Result } | undefined;
    try {
      immediately(() => {
        for (const write of writes) write();
        result = { value: work() };
      });
    } finally {
      if (!result) waiting = [...writes, ...waiting];
    }
    if (!result) throw new Error('a transaction ended without a result');
    stuck = false;
    return result.value;
  };
  const flush = () => {
    if (waiting.length > 0) transaction(() => undefined);
  };
  const commit = () => {
    clearTimeout(timer);
    timer = undefined;
    try {
      flush();
    } catch (error) {
      stuck = true;
      timer = setTimeout(commitInTime, retryAfterMs);
      throw error;
    }
  };
  const commitInTime = () => {
    try {
      commit();
    } catch {}
  };

  return {
    defer: (write) => {
      waiting.push(write);
      timer ??= setTimeout(commitInTime, commitAfterMs);
    },
    single: (statement) => (stuck ? transaction(statement) : statement()),
    transaction,
    flush: commit,
  };
}
