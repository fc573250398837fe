import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createChargeStore } from '../../src/store/charges.ts';
import { openDatabase } from '../../src/store/database.ts';
import { createWriteQueue } from '../../src/store/write-queue.ts';

function openStore() {
  const database = openDatabase(':memory:');
  const queue = createWriteQueue(database);
  return { database, queue, store: createChargeStore(database, queue) };
}
const charge = (amountNano: number, scope: string, limitNano?: number) => ({
  runId: 'r',
  keyName: 'k',
  atMs: 0,
  amountNano,
  keepBackNano: 0,
  scopes: [{ name: scope, limitNano }],
});

test('what is remembered of accounts is what the database says, with and without limits', () => {
  const { database, queue, store } = openStore();
  for (const limit of [undefined, 1000]) {
    const scope = `scope-${limit}`;
    const first = store.hold(charge(30, scope, limit));
    const second = store.hold(charge(20, scope, limit));
    if (!first.held || !second.held) throw new Error('refused');
    store.settle(first.chargeId, 25, '[]');
    expect(store.totals(scope)).toEqual({ spentNano: 25, heldNano: 20 });
    queue.flush();
    const row = database.prepare('SELECT spent_nano, held_nano FROM accounts WHERE scope = ?').get(scope);
    expect(row).toEqual({ spent_nano: 25, held_nano: 20 });
    expect(createChargeStore(database, queue).totals(scope)).toEqual({ spentNano: 25, heldNano: 20 });
  }
});

test('a hold that cannot be written leaves nothing behind', () => {
  const { database, store } = openStore();
  store.hold(charge(10, 'day', 100));
  database.exec('DROP TABLE charges');
  expect(() => store.hold(charge(10, 'day', 100))).toThrow();
  expect(store.totals('day')).toEqual({ spentNano: 0, heldNano: 10 });
});

test('a second process is refused the same database', () => {
  const folder = mkdtempSync(join(tmpdir(), 'orchestra-store-'));
  const database = openDatabase(join(folder, 'orchestra.db'));
  expect(() => openDatabase(join(folder, 'orchestra.db'))).toThrow(/locked/);
  database.close();
  openDatabase(join(folder, 'orchestra.db')).close();
  rmSync(folder, { recursive: true });
});
