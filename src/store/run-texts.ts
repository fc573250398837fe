import type { Database } from './database.ts';
import type { WriteQueue } from './write-queue.ts';

export interface Feedback {
  /** 0 to 1. */
  readonly score: number;
  readonly atMs: number;
  readonly comment: string | undefined;
}

/**
 * What people wrote, beside the records, so that it can be erased alone. Nothing is kept of a run that is not there, or
 * whose texts were erased, however late it comes.
 */
export interface RunTexts {
  /** @param conversation JSON of the request's and the answer's texts. */
  saveConversation(runId: string, conversation: string): void;
  /**
   * Replaces what was said before.
   * @returns the score before; undefined when there was none.
   */
  saveFeedback(runId: string, feedback: Feedback): number | undefined;
  /** Erases texts, comment and sources; score, money and decisions stay. */
  eraseTexts(runId: string): void;
}

export function createRunTexts(database: Database, queue: WriteQueue): RunTexts {
  const upsert = (column: 'conversation' | 'comment') =>
    database.prepare<[string | null, string]>(
      `INSERT INTO run_texts (run_id, ${column}) SELECT id, ? FROM runs WHERE id = ? AND texts_erased = 0
       ON CONFLICT (run_id) DO UPDATE SET ${column} = excluded.${column}`,
    );
  const saveConversation = upsert('conversation');
  const saveComment = upsert('comment');
  const readScore = database.prepare<[string], { score: number | null }>('SELECT score FROM runs WHERE id = ?');
  const saveScore = database.prepare('UPDATE runs SET score = ?, scored_at_ms = ? WHERE id = ?');
  const deleteTexts = database.prepare('DELETE FROM run_texts WHERE run_id = ?');
  const markErased = database.prepare(
    `UPDATE runs SET texts_erased = 1, record = json_set(record, '$.sources', json('[]')) WHERE id = ?`,
  );
  return {
    saveConversation: (runId, conversation) => queue.defer(() => saveConversation.run(conversation, runId)),
    saveFeedback: (runId, { score, atMs, comment }) =>
      queue.transaction(() => {
        const before = readScore.get(runId)?.score ?? undefined;
        saveScore.run(score, atMs, runId);
        saveComment.run(comment ?? null, runId);
        return before;
      }),
    eraseTexts: (runId) => {
      queue.transaction(() => {
        deleteTexts.run(runId);
        markErased.run(runId);
      });
      // The write-ahead log still has the pages as they were.
      database.pragma('wal_checkpoint(TRUNCATE)');
    },
  };
}
