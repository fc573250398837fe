import type { Database } from './database.ts';
import type { WriteQueue } from './write-queue.ts';

export interface StoredRun {
  readonly id: string;
  readonly keyName: string;
  readonly createdAtMs: number;
  /** JSON of the router's RunRecord. */
  readonly record: string;
}

/** One record a run or relay: money and decisions, no texts. */
export interface RunStore {
  save(run: StoredRun): void;
  /** Undefined for an unknown id and for another key's run alike. */
  find(id: string, keyName: string): StoredRun | undefined;
  /** Drops records older than the given instant; returns how many. */
  prune(beforeMs: number): number;
}

interface RunRow {
  readonly id: string;
  readonly key_name: string;
  readonly created_at_ms: number;
  readonly record: string;
}

export function createRunStore(database: Database, queue: WriteQueue): RunStore {
  const insert = database.prepare('INSERT INTO runs (id, key_name, created_at_ms, record) VALUES (?, ?, ?, ?)');
  const select = database.prepare<[string, string], RunRow>('SELECT * FROM runs WHERE id = ? AND key_name = ?');
  const remove = database.prepare('DELETE FROM runs WHERE created_at_ms < ?');
  return {
    save: ({ id, keyName, createdAtMs, record }) => queue.defer(() => insert.run(id, keyName, createdAtMs, record)),
    find: (id, keyName) => {
      queue.flush();
      const row = select.get(id, keyName);
      return row && { id: row.id, keyName: row.key_name, createdAtMs: row.created_at_ms, record: row.record };
    },
    prune: (beforeMs) => remove.run(beforeMs).changes,
  };
}
