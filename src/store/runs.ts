import type { Database } from './database.ts';
import { createRunTexts, type Feedback, type RunTexts } from './run-texts.ts';
import type { WriteQueue } from './write-queue.ts';

export interface StoredRun {
  readonly id: string;
  readonly keyName: string;
  readonly createdAtMs: number;
  readonly kind: string;
  readonly status: string;
  readonly requestedModel: string;
  readonly model: string | undefined;
  /** JSON of the router's RunRecord. */
  readonly record: string;
}

/** A record as it was found again, with what its owner said about it since. */
export interface FoundRun {
  readonly id: string;
  readonly createdAtMs: number;
  readonly record: string;
  readonly feedback: Feedback | undefined;
  /** JSON of the request's and the answer's texts, where they are kept. */
  readonly conversation: string | undefined;
  readonly textsErased: boolean;
}

export interface RunFilter {
  /** At or after. */
  readonly fromMs?: number | undefined;
  /** Strictly before. */
  readonly beforeMs?: number | undefined;
  /** As it was asked for, or who answered. */
  readonly model?: string | undefined;
  readonly status?: string | undefined;
  readonly kind?: string | undefined;
}

/** One record a run or relay: money and decisions. Texts are kept beside it, and only where that is asked for. */
export interface RunStore extends RunTexts {
  save(run: StoredRun): void;
  /** Undefined for an unknown id and for another key's run alike. */
  find(id: string, keyName: string): FoundRun | undefined;
  /** Newest first; `after` is the last run of the page before. */
  list(keyName: string, filter: RunFilter, after: FoundRun | undefined, limit: number): FoundRun[];
  /** Drops records older than the given instant, with their texts; returns how many. */
  prune(beforeMs: number): number;
}

interface RunRow {
  readonly id: string;
  readonly created_at_ms: number;
  readonly record: string;
  readonly score: number | null;
  readonly scored_at_ms: number | null;
  readonly texts_erased: number;
  readonly conversation: string | null;
  readonly comment: string | null;
}

const columns = 'id, created_at_ms, record, score, scored_at_ms, texts_erased, conversation, comment';

export function createRunStore(database: Database, queue: WriteQueue): RunStore {
  const insert = database.prepare(
    `INSERT INTO runs (id, key_name, created_at_ms, kind, status, requested_model, model, record)
     VALUES (@id, @keyName, @createdAtMs, @kind, @status, @requestedModel, @model, @record)`,
  );
  const select = database.prepare<[string, string], RunRow>(
    `SELECT ${columns} FROM runs LEFT JOIN run_texts ON run_id = id WHERE id = ? AND key_name = ?`,
  );
  const selectPage = database.prepare<object, RunRow>(
    `SELECT ${columns} FROM runs LEFT JOIN run_texts ON run_id = id
     WHERE key_name = @keyName AND (created_at_ms, id) < (@lastMs, @lastId)
       AND created_at_ms >= @fromMs AND created_at_ms < @beforeMs
       AND (@kind IS NULL OR kind = @kind) AND (@status IS NULL OR status = @status)
       AND (@model IS NULL OR model = @model OR requested_model = @model)
     ORDER BY created_at_ms DESC, id DESC LIMIT @limit`,
  );
  const remove = database.prepare('DELETE FROM runs WHERE created_at_ms < ?');
  return {
    ...createRunTexts(database, queue),
    save: (run) => queue.defer(() => insert.run({ ...run, model: run.model ?? null })),
    find: (id, keyName) => {
      queue.flush();
      const row = select.get(id, keyName);
      return row && foundRun(row);
    },
    list: (keyName, filter, after, limit) => {
      queue.flush();
      const { fromMs = 0, beforeMs = Number.MAX_SAFE_INTEGER, model = null, status = null, kind = null } = filter;
      const last = { lastMs: after?.createdAtMs ?? Number.MAX_SAFE_INTEGER, lastId: after?.id ?? '' };
      return selectPage.all({ keyName, fromMs, beforeMs, model, status, kind, limit, ...last }).map(foundRun);
    },
    prune: (beforeMs) => remove.run(beforeMs).changes,
  };
}

const foundRun = (row: RunRow): FoundRun => ({
  id: row.id,
  createdAtMs: row.created_at_ms,
  record: row.record,
  feedback:
    row.score === null
      ? undefined
      : { score: row.score, atMs: row.scored_at_ms ?? row.created_at_ms, comment: row.comment ?? undefined },
  conversation: row.conversation ?? undefined,
  textsErased: row.texts_erased === 1,
});
