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

export interface AccountTotals {
  readonly spentNano: number;
  readonly heldNano: number;
}

/**
 * Charges and the running totals of their scopes; each method is one atomic step, however requests interleave. A hold is
 * on disk before its call is made; what closes it follows within milliseconds, and always before the next hold looks.
 */
export interface ChargeStore {
  hold(request: ChargeRequest): HoldResult;
  /** Books the truth, which may be more than was held. `lines` is JSON kept for the report. */
  settle(chargeId: number, amountNano: number, lines: string): void;
  release(chargeId: number): void;
  totals(scope: string): AccountTotals;
  /** Books in full what a dead process had on hold: upstream may have billed it. Returns how many there were. */
  settleAbandoned(): number;
}

interface ChargeRow {
  readonly amount_nano: number;
  readonly scopes: string;
  readonly state: string;
}

export function createChargeStore(database: Database, queue: WriteQueue): ChargeStore {
  const readAccount = database.prepare<[string], { spent_nano: number; held_nano: number }>(
    'SELECT spent_nano, held_nano FROM accounts WHERE scope = ?',
  );
  const addToAccount = database.prepare(
    `INSERT INTO accounts (scope, spent_nano, held_nano) VALUES (?, ?, ?)
     ON CONFLICT (scope) DO UPDATE SET
       spent_nano = spent_nano + excluded.spent_nano, held_nano = held_nano + excluded.held_nano`,
  );
  const moveFromHeld = database.prepare(
    'UPDATE accounts SET spent_nano = spent_nano + ?, held_nano = held_nano - ? WHERE scope = ?',
  );
  const insertCharge = database.prepare(
    `INSERT INTO charges (run_id, key_name, scopes, state, at_ms, amount_nano) VALUES (?, ?, ?, 'held', ?, ?)`,
  );
  const readCharge = database.prepare<[number], ChargeRow>(
    'SELECT amount_nano, scopes, state FROM charges WHERE id = ?',
  );
  const closeCharge = database.prepare('UPDATE charges SET state = ?, amount_nano = ?, lines = ? WHERE id = ?');
  const heldCharges = database.prepare<[], { id: number; amount_nano: number }>(
    `SELECT id, amount_nano FROM charges WHERE state = 'held'`,
  );

  const totals = (scope: string): AccountTotals => {
    const row = readAccount.get(scope);
    return { spentNano: row?.spent_nano ?? 0, heldNano: row?.held_nano ?? 0 };
  };

  const hold = (request: ChargeRequest): HoldResult => {
    for (const { name, limitNano } of request.scopes) {
      if (limitNano === undefined) continue;
      const { spentNano, heldNano } = totals(name);
      const availableNano = limitNano - spentNano - heldNano;
      if (request.amountNano + request.keepBackNano > availableNano) return { held: false, scope: name, availableNano };
    }
    const names = request.scopes.map(({ name }) => name);
    for (const name of names) addToAccount.run(name, 0, request.amountNano);
    const { runId, keyName, atMs, amountNano } = request;
    const { lastInsertRowid } = insertCharge.run(runId, keyName, JSON.stringify(names), atMs, amountNano);
    return { held: true, chargeId: Number(lastInsertRowid) };
  };

  const close = (chargeId: number, state: string, spentNano: number, lines: string): void => {
    const charge = readCharge.get(chargeId);
    if (charge?.state !== 'held') throw new Error(`charge ${chargeId} is not on hold`);
    // Written by `hold` above, always a list of names.
    for (const scope of JSON.parse(charge.scopes) as string[]) moveFromHeld.run(spentNano, charge.amount_nano, scope);
    closeCharge.run(state, spentNano, lines, chargeId);
  };

  return {
    hold: (request) => queue.transaction(() => hold(request)),
    settle: (id, amountNano, lines) => queue.defer(() => close(id, 'settled', amountNano, lines)),
    release: (id) => queue.defer(() => close(id, 'released', 0, '[]')),
    totals: (scope) => {
      queue.flush();
      return totals(scope);
    },
    settleAbandoned: () =>
      queue.transaction(() => {
        const charges = heldCharges.all();
        for (const { id, amount_nano } of charges) close(id, 'abandoned', amount_nano, '[]');
        return charges.length;
      }),
  };
}
