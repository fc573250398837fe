import { type Accounts, type AccountTotals, createAccounts } from './accounts.ts';
import type { Database } from './database.ts';
import type { WriteQueue } from './write-queue.ts';

/** A pot that a charge draws on: one run, or one key's day. */
export interface Scope {
  readonly name: string;
  /** Undefined: no limit, only counted. */
  readonly limitNano: number | undefined;
}

export interface ChargeRequest {
  readonly runId: string;
  readonly keyName: string;
  readonly atMs: number;
  readonly amountNano: number;
  /** Must stay free beside this charge, though it is not held: the price of the answer that ends the run. */
  readonly keepBackNano: number;
  readonly scopes: readonly Scope[];
}

export type HoldResult =
  | { readonly held: true; readonly chargeId: number }
  | { readonly held: false; readonly scope: string; readonly availableNano: number };

/**
 * Charges and the running totals of their scopes; each method is one atomic step, however requests interleave. A hold is
 * on disk before its call is made: one row of a small table, since every call waits for it. What closes it counts at once
 * and is on disk within milliseconds.
 */
export interface ChargeStore {
  hold(request: ChargeRequest): HoldResult;
  /** Books the truth, which may be more than was held. `lines` is JSON kept for the report. */
  settle(chargeId: number, amountNano: number, lines: string): void;
  release(chargeId: number): void;
  totals(scope: string): AccountTotals;
  /** Books in full what a dead process had on hold: upstream may have billed it. Returns how many there were. */
  settleAbandoned(): number;
  /**
   * Forgets what was closed before the UTC day of `beforeMs`, which must be over, and the pots it drew on: they are of
   * runs that ended and days that are past. What is still on hold stays. Returns how many charges there were.
   */
  prune(beforeMs: number): number;
}

const dayMs = 86_400_000;

export function createChargeStore(database: Database, queue: WriteQueue): ChargeStore {
  const insertHold = database.prepare(
    'INSERT INTO holds (id, run_id, key_name, scopes, at_ms, amount_nano) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const deleteHold = database.prepare('DELETE FROM holds WHERE id = ?');
  const allHolds = database.prepare<[], { id: number; amount_nano: number; scopes: string }>(
    'SELECT id, amount_nano, scopes FROM holds',
  );
  const insertCharge = database.prepare(
    `INSERT INTO charges (id, run_id, key_name, scopes, state, at_ms, amount_nano, lines)
     SELECT id, run_id, key_name, scopes, ?, at_ms, ?, ? FROM holds WHERE id = ?`,
  );
  const addToAccount = database.prepare(
    `INSERT INTO accounts (scope, spent_nano) VALUES (?, ?)
     ON CONFLICT (scope) DO UPDATE SET spent_nano = spent_nano + excluded.spent_nano`,
  );

  const accounts = createAccounts(database, queue);
  const open = new Map<number, { readonly amountNano: number; readonly scopes: readonly string[] }>();

  let lastId = lastIdIn(database);

  const hold = (request: ChargeRequest): HoldResult => {
    for (const { name, limitNano } of request.scopes) {
      if (limitNano === undefined) continue;
      const { spentNano, heldNano } = accounts.totals(name);
      // A pot may be overdrawn, by an overrun or a limit that was lowered: what costs nothing still passes.
      const availableNano = Math.max(0, limitNano - spentNano - heldNano);
      if (request.amountNano + request.keepBackNano > availableNano) return { held: false, scope: name, availableNano };
    }
    const scopes = request.scopes.map(({ name }) => name);
    const { runId, keyName, atMs, amountNano } = request;
    const chargeId = ++lastId;
    accounts.move(scopes, 0, amountNano);
    withUndo(
      () => queue.single(() => insertHold.run(chargeId, runId, keyName, JSON.stringify(scopes), atMs, amountNano)),
      () => accounts.move(scopes, 0, -amountNano),
    );
    open.set(chargeId, { amountNano, scopes });
    return { held: true, chargeId };
  };

  const write = (id: number, state: State, spentNano: number, lines: string, scopes: readonly string[]): void => {
    insertCharge.run(state, spentNano, lines, id);
    deleteHold.run(id);
    if (spentNano > 0) for (const scope of scopes) addToAccount.run(scope, spentNano);
  };

  const close = (chargeId: number, state: State, spentNano: number, lines: string): void => {
    const charge = open.get(chargeId);
    if (!charge) throw new Error(`charge ${chargeId} is not on hold`);
    open.delete(chargeId);
    accounts.move(charge.scopes, spentNano, -charge.amountNano);
    queue.defer(() => write(chargeId, state, spentNano, lines, charge.scopes));
  };

  const settleAbandoned = (): number => {
    const holds = allHolds.all();
    for (const { id, amount_nano: amountNano, scopes } of holds) {
      // Written by `hold` above, always a list of names.
      write(id, 'abandoned', amountNano, '[]', JSON.parse(scopes) as string[]);
    }
    return holds.length;
  };

  return {
    hold,
    settle: (id, amountNano, lines) => close(id, 'settled', amountNano, lines),
    release: (id) => close(id, 'released', 0, '[]'),
    totals: accounts.totals,
    prune: pruning(database, queue, accounts),
    settleAbandoned: () => {
      const count = queue.transaction(settleAbandoned);
      accounts.forget();
      open.clear();
      return count;
    },
  };
}

function pruning(database: Database, queue: WriteQueue, accounts: Accounts): ChargeStore['prune'] {
  const deleteAccounts = database.prepare(
    `DELETE FROM accounts WHERE scope NOT IN (SELECT value FROM holds, json_each(holds.scopes))
       AND scope IN (SELECT value FROM charges, json_each(charges.scopes) WHERE at_ms < ?)`,
  );
  const deleteCharges = database.prepare('DELETE FROM charges WHERE at_ms < ?');
  return (beforeMs) => {
    const startOfDayMs = Math.floor(beforeMs / dayMs) * dayMs;
    const count = queue.transaction(() => {
      deleteAccounts.run(startOfDayMs);
      return deleteCharges.run(startOfDayMs).changes;
    });
    accounts.forgetIdle();
    return count;
  };
}

type State = 'settled' | 'released' | 'abandoned';

/** Ids are given out here and never twice, although a hold leaves its table. */
function lastIdIn(database: Database): number {
  const select = 'SELECT max(id) AS id FROM (SELECT max(id) AS id FROM holds UNION ALL SELECT max(id) FROM charges)';
  return database.prepare<[], { id: number | null }>(select).get()?.id ?? 0;
}

function withUndo<Result>(work: () => Result, undo: () => void): Result {
  try {
    return work();
  } catch (error) {
    undo();
    throw error;
  }
}
