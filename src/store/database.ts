import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import Sqlite from 'better-sqlite3';

export type Database = Sqlite.Database;

/** Each entry runs once, in order; never edit one that was released, append instead. */
const migrations: readonly string[] = [
  `CREATE TABLE accounts (
     scope TEXT PRIMARY KEY,
     spent_nano INTEGER NOT NULL DEFAULT 0 CHECK (spent_nano >= 0),
     held_nano INTEGER NOT NULL DEFAULT 0 CHECK (held_nano >= 0)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE charges (
     id INTEGER PRIMARY KEY,
     run_id TEXT NOT NULL,
     key_name TEXT NOT NULL,
     scopes TEXT NOT NULL,
     state TEXT NOT NULL CHECK (state IN ('held', 'settled', 'released', 'abandoned')),
     at_ms INTEGER NOT NULL,
     amount_nano INTEGER NOT NULL,
     lines TEXT NOT NULL DEFAULT '[]'
   ) STRICT;
   CREATE INDEX charges_held ON charges (state) WHERE state = 'held';
   CREATE TABLE runs (
     id TEXT PRIMARY KEY,
     key_name TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL,
     record TEXT NOT NULL
   ) STRICT;
   CREATE INDEX runs_by_key ON runs (key_name, created_at_ms);`,
  `ALTER TABLE runs ADD COLUMN kind TEXT NOT NULL DEFAULT 'run';
   ALTER TABLE runs ADD COLUMN status TEXT NOT NULL DEFAULT 'completed';
   ALTER TABLE runs ADD COLUMN requested_model TEXT NOT NULL DEFAULT '';
   ALTER TABLE runs ADD COLUMN model TEXT;
   ALTER TABLE runs ADD COLUMN score REAL;
   ALTER TABLE runs ADD COLUMN scored_at_ms INTEGER;
   ALTER TABLE runs ADD COLUMN texts_erased INTEGER NOT NULL DEFAULT 0;
   UPDATE runs SET
     kind = json_extract(record, '$.kind'),
     status = json_extract(record, '$.status'),
     requested_model = json_extract(record, '$.requestedModel'),
     model = json_extract(record, '$.model');
   DROP INDEX runs_by_key;
   CREATE INDEX runs_by_key ON runs (key_name, created_at_ms, id);
   CREATE TABLE run_texts (
     run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
     conversation TEXT,
     comment TEXT
   ) STRICT;
   CREATE INDEX charges_by_key ON charges (key_name, at_ms);`,
  `CREATE TABLE skill_counts (
     model TEXT NOT NULL,
     domain TEXT NOT NULL,
     right_sum REAL NOT NULL CHECK (right_sum >= 0),
     wrong_sum REAL NOT NULL CHECK (wrong_sum >= 0),
     PRIMARY KEY (model, domain)
   ) STRICT, WITHOUT ROWID;`,
  `CREATE TABLE holds (
     id INTEGER PRIMARY KEY,
     run_id TEXT NOT NULL,
     key_name TEXT NOT NULL,
     scopes TEXT NOT NULL,
     at_ms INTEGER NOT NULL,
     amount_nano INTEGER NOT NULL
   ) STRICT;
   INSERT INTO holds SELECT id, run_id, key_name, scopes, at_ms, amount_nano FROM charges WHERE state = 'held';
   DELETE FROM charges WHERE state = 'held';
   DROP INDEX IF EXISTS charges_held;
   ALTER TABLE accounts DROP COLUMN held_nano;`,
  'CREATE INDEX charges_by_time ON charges (at_ms);',
];

/** Sixteen megabytes of log. */
const checkpointPages = 4_000;

/**
 * Opens the embedded database, creating and migrating it. A crash can lose the last few milliseconds of commits to the
 * operating system only when the machine itself fails (WAL, synchronous=NORMAL), never corrupt the file.
 * @param path a file, or `:memory:`.
 */
export function openDatabase(path: string): Database {
  if (path !== ':memory:') mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // Two processes would each take the other's holds for those of a dead one: whoever comes second is refused.
  const database = new Sqlite(path, { timeout: 1_000 });
  database.pragma('locking_mode = EXCLUSIVE');
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = NORMAL');
  // Most pages are written again and again: the later they are carried over, the fewer of them, and the fewer waits.
  database.pragma(`wal_autocheckpoint = ${checkpointPages}`);
  database.pragma('foreign_keys = ON');
  // What is erased shall be gone from the file, not only from the index of it.
  database.pragma('secure_delete = ON');
  migrate(database);
  return database;
}

function migrate(database: Database): void {
  const done = Number(database.pragma('user_version', { simple: true }));
  if (done > migrations.length) {
    throw new Error(`this database was written by a newer version (schema ${done}, known up to ${migrations.length})`);
  }
  for (let next = done; next < migrations.length; next++) {
    database.transaction(() => {
      database.exec(migrations[next] ?? '');
      database.pragma(`user_version = ${next + 1}`);
    })();
  }
}
