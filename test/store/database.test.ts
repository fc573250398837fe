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

test('a database of a newer version is left alone', () => {
  const home = mkdtempSync(join(tmpdir(), 'orchestra-store-'));
  const path = join(home, 'orchestra.db');
  const newer = openDatabase(path);
  newer.pragma('user_version = 1000');
  newer.close();
  expect(() => openDatabase(path)).toThrow(/newer version/);
  rmSync(home, { recursive: true });
});
