import type { Database } from './database.ts';

/** What feedback has taught about who is good at what. Sums of fractions: an answer can be half right, in two domains. */
export interface SkillCountStore {
  find(model: string, domain: string): { readonly right: number; readonly wrong: number } | undefined;
  /**
   * Counts one judged answer.
   * @param domains chance of each domain of its problem; `''` stands for all others.
   * @param score 0 (wrong) to 1 (right).
   */
  add(model: string, domains: ReadonlyMap<string, number>, score: number): void;
}

export function createSkillCountStore(database: Database): SkillCountStore {
  const select = database.prepare<[string, string], { right: number; wrong: number }>(
    'SELECT right_sum AS right, wrong_sum AS wrong FROM skill_counts WHERE model = ? AND domain = ?',
  );
  const insert = database.prepare(
    `INSERT INTO skill_counts (model, domain, right_sum, wrong_sum) VALUES (?, ?, ?, ?)
     ON CONFLICT (model, domain) DO UPDATE SET
       right_sum = right_sum + excluded.right_sum, wrong_sum = wrong_sum + excluded.wrong_sum`,
  );
  const add = database.transaction((model: string, domains: ReadonlyMap<string, number>, score: number) => {
    for (const [domain, share] of domains) insert.run(model, domain, share * score, share * (1 - score));
  });
  return { find: (model, domain) => select.get(model, domain), add };
}
