import type { Database } from './database.ts';
import type { WriteQueue } from './write-queue.ts';

export interface AccountTotals {
  readonly spentNano: number;
  readonly heldNano: number;
}

/**
 * Running totals by scope, as of this moment. This process alone has the database, so what it knows of an account is the
 * truth, and looking costs neither a query nor a commit. On disk is what was spent; what is held are the open holds.
 */
export interface Accounts {
  totals(scope: string): AccountTotals;
  /** Tell it of a change before that change is written. */
  move(scopes: readonly string[], spentNano: number, heldNano: number): void;
  /** After a change behind its back: open holds stay counted, since no account on disk knows of them. */
  forgetIdle(): void;
  /** When the open holds are somebody else's from now on. */
  forget(): void;
}

/** Runs come and go; accounts without an open hold can be read again. */
const mostKnown = 10_000;

export function createAccounts(database: Database, queue: WriteQueue): Accounts {
  const select = database.prepare<[string], { spent_nano: number }>('SELECT spent_nano FROM accounts WHERE scope = ?');
  const known = new Map<string, AccountTotals>();
  const forgetIdle = () => {
    for (const [scope, { heldNano }] of known) if (heldNano === 0) known.delete(scope);
  };
  const totals = (scope: string): AccountTotals => {
    const found = known.get(scope);
    if (found) return found;
    if (known.size >= mostKnown) {
      queue.flush();
      forgetIdle();
    }
    const read = { spentNano: select.get(scope)?.spent_nano ?? 0, heldNano: 0 };
    known.set(scope, read);
    return read;
  };
  return {
    totals,
    move: (scopes, spentNano, heldNano) => {
      // All are looked at before any is changed: looking may forget accounts, and must not forget half a change.
      const moved = scopes.map((scope) => {
        const before = totals(scope);
        return [scope, { spentNano: before.spentNano + spentNano, heldNano: before.heldNano + heldNano }] as const;
      });
      for (const [scope, after] of moved) known.set(scope, after);
    },
    forgetIdle,
    forget: () => known.clear(),
  };
}
