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
    const row = database.prepare('SELECT spent_nano FROM accounts WHERE scope = ?').get(scope);
    expect(row).toEqual({ spent_nano: 25 });
    expect(database.prepare('SELECT amount_nano FROM holds').all()).toEqual([{ amount_nano: 20 }]);
    const next = createChargeStore(database, queue);
    expect(next.settleAbandoned()).toBe(1);
    expect(next.totals(scope)).toEqual({ spentNano: 45, heldNano: 0 });
  }
});

test('a pot that is overdrawn still lets pass what costs nothing', () => {
  const { store } = openStore();
  const held = store.hold(charge(10, 'day', 10));
  if (!held.held) throw new Error('refused');
  store.settle(held.chargeId, 15, '[]');
  expect(store.hold(charge(1, 'day', 10))).toEqual({ held: false, scope: 'day', availableNano: 0 });
  expect(store.hold(charge(0, 'day', 10))).toMatchObject({ held: true });
});

test('an id is never given out twice, whatever became of the charges before', () => {
  const { database, queue, store } = openStore();
  const ids = [1, 2, 3].map(() => {
    const held = store.hold(charge(1, 'day'));
    if (!held.held) throw new Error('refused');
    store.release(held.chargeId);
    queue.flush();
    return held.chargeId;
  });
  const next = createChargeStore(database, queue).hold(charge(1, 'day'));
  expect(new Set([...ids, next.held && next.chargeId]).size).toBe(4);
});

test('accounts with open holds are remembered, however many others come by', () => {
  const { store } = openStore();
  store.hold(charge(10, 'day', 100));
  for (let run = 0; run < 10_001; run++) store.totals(`run-${run}`);
  expect(store.totals('day')).toEqual({ spentNano: 0, heldNano: 10 });
});

test('what is due but cannot be written stops every new hold until it can', async () => {
  const { database, store } = openStore();
  const held = store.hold(charge(10, 'day', 100));
  if (!held.held) throw new Error('refused');
  database.exec('ALTER TABLE accounts RENAME TO away');
  store.settle(held.chargeId, 7, '[]');
  await expect.poll(() => attempt(() => store.hold(charge(1, 'day', 100)))).toBe('failed');
  expect(store.totals('day')).toMatchObject({ spentNano: 7 });
  database.exec('ALTER TABLE away RENAME TO accounts');
  expect(store.hold(charge(1, 'day', 100))).toMatchObject({ held: true });
  expect(database.prepare('SELECT spent_nano FROM accounts').all()).toEqual([{ spent_nano: 7 }]);
});

function attempt(work: () => unknown): 'done' | 'failed' {
  try {
    work();
    return 'done';
  } catch {
    return 'failed';
  }
}

test('a hold that cannot be written leaves nothing behind', () => {
  const { database, store } = openStore();
  store.hold(charge(10, 'day', 100));
  database.exec('DROP TABLE holds');
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
