import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { parseConfig } from '../../src/assembly/load-config.ts';
import { openStorage, pruneDaily } from '../../src/assembly/storage.ts';
import { aStoredRun, openStores } from '../store/opened.ts';

const dayMs = 86_400_000;

test('a start forgets runs after their days, and what was spent once no report asks for it', () => {
  const home = mkdtempSync(join(tmpdir(), 'orchestra-storage-'));
  const before = openStores(join(home, 'orchestra.db'));
  for (const [name, ageDays] of [
    ['new', 0],
    ['late', 30],
    ['old', 33],
  ] as const) {
    const atMs = Date.now() - ageDays * dayMs;
    before.runs.save(aStoredRun({ id: `run_${name}`, createdAtMs: atMs }));
    const scopes = [{ name: `run:run_${name}`, limitNano: 100 }];
    const held = before.charges.hold({ runId: name, keyName: 'one', atMs, amountNano: 7, keepBackNano: 0, scopes });
    if (held.held) before.charges.settle(held.chargeId, 7, '[]');
  }
  before.close();
  const { runs, spending, close } = openStorage(
    parseConfig({ trace: { days: 2 } }, {}),
    home,
    new Map(),
    () => undefined,
  );
  expect(['new', 'late', 'old'].map((name) => runs.find(`run_${name}`, 'one')?.id)).toEqual([
    'run_new',
    undefined,
    undefined,
  ]);
  expect(spending.byDay('one', 0).map(({ spentNano }) => spentNano)).toEqual([7, 7]);
  close();
  const { database } = openStores(join(home, 'orchestra.db'));
  expect(database.prepare('SELECT scope FROM accounts ORDER BY scope').pluck().all()).toEqual([
    'run:run_late',
    'run:run_new',
  ]);
  database.close();
  rmSync(home, { recursive: true });
});

test('a database that cannot be pruned one day is pruned the next', () => {
  vi.useFakeTimers();
  let days = 0;
  const stop = pruneDaily(() => {
    days += 1;
    if (days === 2) throw new Error('SQLITE_FULL');
  });
  vi.advanceTimersByTime(2 * dayMs);
  expect(days).toBe(3);
  stop();
  vi.advanceTimersByTime(dayMs);
  expect(days).toBe(3);
  vi.useRealTimers();
});
