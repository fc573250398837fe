import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { expect, test } from 'vitest';
import { openDatabase } from '../../src/store/database.ts';
import { openStores } from './opened.ts';

test('records of the first schema can be listed by what they hold', () => {
  const home = mkdtempSync(join(tmpdir(), 'orchestra-store-'));
  const path = join(home, 'orchestra.db');
  const old = new Sqlite(path);
  old.exec(`CREATE TABLE charges (id INTEGER PRIMARY KEY, key_name TEXT, at_ms INTEGER, amount_nano INTEGER,
      run_id TEXT, scopes TEXT, state TEXT, lines TEXT);
    CREATE TABLE accounts (scope TEXT PRIMARY KEY, spent_nano INTEGER, held_nano INTEGER);
    CREATE TABLE runs (id TEXT PRIMARY KEY, key_name TEXT, created_at_ms INTEGER, record TEXT) STRICT;
    CREATE INDEX runs_by_key ON runs (key_name, created_at_ms);`);
  const record = { kind: 'relay', status: 'failed', requestedModel: 'vendor/large' };
  old.prepare('INSERT INTO runs VALUES (?, ?, ?, ?)').run('run_1', 'one', 1, JSON.stringify(record));
  old.pragma('user_version = 1');
  old.close();
  const { runs, close } = openStores(path);
  const filter = { kind: 'relay', status: 'failed', model: 'vendor/large' };
  expect(runs.list('one', filter, undefined, 10).map(({ id }) => id)).toEqual(['run_1']);
  close();
  rmSync(home, { recursive: true });
});

test('holds of an older schema are booked like those of any dead process', () => {
  const home = mkdtempSync(join(tmpdir(), 'orchestra-store-'));
  const path = join(home, 'orchestra.db');
  const old = new Sqlite(path);
  old.exec(schemaThree);
  old.exec(`INSERT INTO accounts VALUES ('day', 5, 7), ('run', 0, 7);
    INSERT INTO charges VALUES (1, 'run_1', 'one', '["day"]', 'settled', 1, 5, '[]'),
      (2, 'run_2', 'one', '["day","run"]', 'held', 2, 7, '[]');`);
  old.pragma('user_version = 3');
  old.close();
  const { charges, spending, close } = openStores(path);
  expect(charges.settleAbandoned()).toBe(1);
  expect(charges.totals('day')).toEqual({ spentNano: 12, heldNano: 0 });
  expect(charges.totals('run')).toEqual({ spentNano: 7, heldNano: 0 });
  expect(spending.byDay('one', 0)).toEqual([{ dayMs: 0, spentNano: 12, heldNano: 0, abandonedNano: 7 }]);
  const next = charges.hold({ runId: 'r', keyName: 'one', atMs: 3, amountNano: 1, keepBackNano: 0, scopes: [] });
  expect(next).toEqual({ held: true, chargeId: 3 });
  close();
  rmSync(home, { recursive: true });
});

/** The tables of money as they were before holds had one of their own. */
const schemaThree = `CREATE TABLE accounts (
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
   CREATE INDEX charges_by_key ON charges (key_name, at_ms);
   CREATE TABLE runs (id TEXT PRIMARY KEY, key_name TEXT NOT NULL, created_at_ms INTEGER NOT NULL, record TEXT NOT NULL,
     kind TEXT, status TEXT, requested_model TEXT, model TEXT, score REAL, scored_at_ms INTEGER, texts_erased INTEGER) STRICT;
   CREATE TABLE run_texts (run_id TEXT PRIMARY KEY, conversation TEXT, comment TEXT) STRICT;`;

test('a database of a newer version is left alone', () => {
  const home = mkdtempSync(join(tmpdir(), 'orchestra-store-'));
  const path = join(home, 'orchestra.db');
  const newer = openDatabase(path);
  newer.pragma('user_version = 1000');
  newer.close();
  expect(() => openDatabase(path)).toThrow(/newer version/);
  rmSync(home, { recursive: true });
});
