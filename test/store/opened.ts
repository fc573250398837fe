import { createChargeStore } from '../../src/store/charges.ts';
import { openDatabase } from '../../src/store/database.ts';
import { createRunStore, type StoredRun } from '../../src/store/runs.ts';
import { createSpendingStore } from '../../src/store/spending.ts';
import { createWriteQueue } from '../../src/store/write-queue.ts';

/** All stores over one database. */
export function openStores(path = ':memory:') {
  const database = openDatabase(path);
  const queue = createWriteQueue(database);
  return {
    database,
    queue,
    runs: createRunStore(database, queue),
    charges: createChargeStore(database, queue),
    spending: createSpendingStore(database, queue),
    close: () => {
      queue.flush();
      database.close();
    },
  };
}

export const aStoredRun = (part: Partial<StoredRun> & Pick<StoredRun, 'id'>): StoredRun => ({
  keyName: 'one',
  createdAtMs: 1_000,
  kind: 'run',
  status: 'completed',
  requestedModel: 'orchestra',
  model: 'vendor/small',
  record: '{"version":1,"sources":[{"title":"A page","url":"https://example.org/"}]}',
  ...part,
});
