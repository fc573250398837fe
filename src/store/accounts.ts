import type { Database } from './database.ts';
import type { WriteQueue } from './write-queue.ts';

export interface AccountTotals {
  readonly spentNano: number;
  readonly heldNano: number;
}

/**
 * Running totals by scope, as of this moment. This process alone has the database, so what it knows of an account is the
 * truth, and looking costs neither a query nor a commit.
 */
export interface Accounts {
  totals(scope: string): AccountTotals;
  /** Tell it of a change before that change is written. */
  move(scopes: readonly string[], spentNano: number, heldNano: number): void;
  /** After a change behind its back. */
  forget(): void;
}

/** Runs come and go; their accounts can be read again. */
const mostKnown = 10_000;

export function createAccounts(database: Database, queue: WriteQueue): Accounts {
  const select = database.prepare<[string], { spent_nano: number; held_nano: number }>(
    'SELECT spent_nano, held_nano FROM accounts WHERE scope = ?',
  );
  const known = new Map<string, AccountTotals>();
  const totals = (scope: string): AccountTotals => {
    const found = known.get(scope);
    if (found) return found;
    if (known.size >= mostKnown) {
      queue.flush();
      known.clear();
    }
    const row = select.get(scope);
    const read = { spentNano: row?.spent_nano ?? 0, heldNano: row?.held_nano ?? 0 };
    known.set(scope, read);
    return read;
  };
  return {
    totals,
    move: (scopes, spentNano, heldNano) => {
      for (const scope of scopes) {
        const before = totals(scope);
        known.set(scope, { spentNano: before.spentNano + spentNano, heldNano: before.heldNano + heldNano });
      }
    },
    forget: () => known.clear(),
  };
}
