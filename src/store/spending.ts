import type { Database } from './database.ts';
import type { WriteQueue } from './write-queue.ts';

/** What one meter consumed. */
export interface MeterSpending {
  readonly meter: string;
  readonly calls: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly durationMs: number;
  /** Sum over the calls with a known price. */
  readonly costNano: number;
  readonly callsOfUnknownPrice: number;
}

export interface DaySpending {
  /** Start of the UTC day. */
  readonly dayMs: number;
  readonly spentNano: number;
  readonly heldNano: number;
  /** Part of what was spent that no meter accounts for: holds of a process that died, booked in full. */
  readonly abandonedNano: number;
}

/** What keys spent, from the ledger's own rows: integers, summed by the database. */
export interface SpendingStore {
  byDay(keyName: string, sinceMs: number): DaySpending[];
  byMeter(keyName: string, sinceMs: number): MeterSpending[];
}

const dayMs = 86_400_000;

export function createSpendingStore(database: Database, queue: WriteQueue): SpendingStore {
  const days = database.prepare<{ keyName: string; sinceMs: number }, DaySpending>(
    `SELECT at_ms / ${dayMs} * ${dayMs} AS dayMs,
       SUM(iif(state = 'held', 0, amount_nano)) AS spentNano,
       SUM(iif(state = 'held', amount_nano, 0)) AS heldNano,
       SUM(iif(state = 'abandoned', amount_nano, 0)) AS abandonedNano
     FROM (
       SELECT at_ms, state, amount_nano FROM charges WHERE key_name = @keyName AND at_ms >= @sinceMs
       UNION ALL
       SELECT at_ms, 'held' AS state, amount_nano FROM holds WHERE key_name = @keyName AND at_ms >= @sinceMs
     ) GROUP BY dayMs ORDER BY dayMs DESC`,
  );
  const meters = database.prepare<[string, number], MeterSpending>(
    `SELECT value ->> 'meter' AS meter,
       SUM(value -> 'usage' ->> 'calls') AS calls,
       SUM((value -> 'usage' ->> 'inputTokens') + (value -> 'usage' ->> 'cacheReadTokens')
         + (value -> 'usage' ->> 'cacheWriteTokens')
         + coalesce(value -> 'usage' ->> 'cacheWriteHourTokens', 0)) AS inputTokens,
       SUM(value -> 'usage' ->> 'cacheReadTokens') AS cachedTokens,
       SUM((value -> 'usage' ->> 'outputTokens') + (value -> 'usage' ->> 'reasoningTokens')) AS outputTokens,
       SUM(value -> 'usage' ->> 'durationMs') AS durationMs,
       SUM(coalesce(value ->> 'cost', 0)) AS costNano,
       SUM(iif(value ->> 'cost' IS NULL, value -> 'usage' ->> 'calls', 0)) AS callsOfUnknownPrice
     FROM charges, json_each(charges.lines)
     WHERE key_name = ? AND at_ms >= ? AND state = 'settled' GROUP BY 1 ORDER BY costNano DESC, meter`,
  );
  return {
    byDay: (keyName, sinceMs) => {
      queue.flush();
      return days.all({ keyName, sinceMs });
    },
    byMeter: (keyName, sinceMs) => {
      queue.flush();
      return meters.all(keyName, sinceMs);
    },
  };
}
