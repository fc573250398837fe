import type { Database } from './database.ts';

/** What feedback has taught about who is good at what. Sums of fractions: an answer can be half right, in two domains. */
export interface SkillCountStore {
  find(model: string, domain: string): { readonly right: number; readonly wrong: number } | undefined;
  /**
   * Counts one judged answer, once: a later judgement of the same answer replaces the earlier.
   * @param domains chance of each domain of its problem; what is missing to 1 is counted under `''`.
   * @param score 0 (wrong) to 1 (right).
   * @param scoreBefore the earlier judgement, if there was one.
   */
  add(model: string, domains: ReadonlyMap<string, number>, score: number, scoreBefore?: number): void;
}

export function createSkillCountStore(database: Database): SkillCountStore {
  const select = database.prepare<[string, string], { right: number; wrong: number }>(
    'SELECT right_sum AS right, wrong_sum AS wrong FROM skill_counts WHERE model = ? AND domain = ?',
  );
  const ensure = database.prepare(
    'INSERT OR IGNORE INTO skill_counts (model, domain, right_sum, wrong_sum) VALUES (?, ?, 0, 0)',
  );
  // Taking a fraction back can leave a hair less than nothing.
  const update = database.prepare(
    `UPDATE skill_counts SET right_sum = max(0, right_sum + ?), wrong_sum = max(0, wrong_sum + ?)
     WHERE model = ? AND domain = ?`,
  );
  const add: SkillCountStore['add'] = (model, domains, score, scoreBefore) => {
    if (!(score >= 0 && score <= 1)) throw new RangeError(`a score is from 0 to 1, not ${score}`);
    const named = [...domains].reduce((sum, [, share]) => sum + share, 0);
    const shares = new Map([...domains, ['', (domains.get('') ?? 0) + Math.max(0, 1 - named)] as const]);
    const right = score - (scoreBefore ?? 0);
    const wrong = 1 - score - (scoreBefore === undefined ? 0 : 1 - scoreBefore);
    for (const [domain, share] of shares) {
      ensure.run(model, domain);
      update.run(share * right, share * wrong, model, domain);
    }
  };
  return { find: (model, domain) => select.get(model, domain), add: database.transaction(add) };
}
