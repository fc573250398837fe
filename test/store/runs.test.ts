import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { FoundRun, RunFilter, StoredRun } from '../../src/store/runs.ts';
import { aStoredRun, openStores } from './opened.ts';

const oneOf = (...values: string[]) => fc.constantFrom(...values);
const someRuns = fc
  .array(
    fc.record({
      keyName: oneOf('one', 'two'),
      // Few instants, so that many runs share one.
      createdAtMs: fc.integer({ min: 1, max: 5 }),
      kind: oneOf('run', 'relay'),
      status: oneOf('completed', 'failed'),
      requestedModel: oneOf('orchestra', 'vendor/small'),
      model: fc.option(oneOf('vendor/small', 'vendor/large'), { nil: undefined }),
    }),
    { maxLength: 40 },
  )
  .map((facts) => facts.map((fact, index) => aStoredRun({ id: `run_${(index * 7919) % 1000}`, ...fact })));
const someFilter: fc.Arbitrary<RunFilter> = fc.record(
  {
    fromMs: fc.integer({ min: 0, max: 6 }),
    beforeMs: fc.integer({ min: 0, max: 6 }),
    kind: oneOf('run', 'relay'),
    status: oneOf('completed', 'failed'),
    model: oneOf('orchestra', 'vendor/small', 'vendor/large'),
  },
  { requiredKeys: [] },
);

/** The same filter, said in another language. */
const passes = (run: StoredRun, { fromMs = 0, beforeMs = 99, kind, status, model }: RunFilter): boolean =>
  run.keyName === 'one' &&
  run.createdAtMs >= fromMs &&
  run.createdAtMs < beforeMs &&
  (kind === undefined || run.kind === kind) &&
  (status === undefined || run.status === status) &&
  (model === undefined || [run.model, run.requestedModel].includes(model));

test('pages of any size hold every run of the key once, newest first', () => {
  fc.assert(
    fc.property(someRuns, someFilter, fc.integer({ min: 1, max: 7 }), (all, filter, limit) => {
      const { runs, close } = openStores();
      for (const run of all) runs.save(run);
      const seen: FoundRun[] = [];
      for (;;) {
        const page = runs.list('one', filter, seen.at(-1), limit);
        seen.push(...page);
        if (page.length < limit) break;
      }
      close();
      const expected = all.filter((run) => passes(run, filter));
      expect(seen.map(({ id }) => id).sort()).toEqual(expected.map(({ id }) => id).sort());
      const instants = seen.map(({ createdAtMs }) => createdAtMs);
      expect(instants).toEqual(instants.toSorted((a, b) => b - a));
    }),
    { numRuns: 60 },
  );
});

test('a run that arrives between two pages moves none of the older ones', () => {
  const { runs, close } = openStores();
  for (let at = 1; at <= 4; at++) runs.save(aStoredRun({ id: `run_${at}`, createdAtMs: at }));
  const first = runs.list('one', {}, undefined, 2);
  runs.save(aStoredRun({ id: 'run_5', createdAtMs: 5 }));
  const second = runs.list('one', {}, first.at(-1), 2);
  expect([...first, ...second].map(({ id }) => id)).toEqual(['run_4', 'run_3', 'run_2', 'run_1']);
  close();
});

test('the last feedback stands, and the score before it is told', () => {
  const { runs, close } = openStores();
  runs.save(aStoredRun({ id: 'run_1' }));
  expect(runs.saveFeedback('run_1', { score: 0.25, atMs: 5, comment: 'meh' })).toBeUndefined();
  expect(runs.saveFeedback('run_1', { score: 1, atMs: 6, comment: undefined })).toBe(0.25);
  expect(runs.find('run_1', 'one')?.feedback).toEqual({ score: 1, atMs: 6, comment: undefined });
  close();
});

test('erased texts are gone from the files, and late ones are not taken in', () => {
  const home = mkdtempSync(join(tmpdir(), 'orchestra-store-'));
  const { runs, close } = openStores(join(home, 'orchestra.db'));
  const secret = 'AMBERFOX'.repeat(2000);
  runs.save(aStoredRun({ id: 'run_1', record: JSON.stringify({ sources: [{ url: secret }] }) }));
  runs.saveConversation('run_1', secret);
  runs.saveFeedback('run_1', { score: 1, atMs: 5, comment: secret });
  const onDisk = () => readdirSync(home).some((file) => readFileSync(join(home, file)).includes('AMBERFOX'));
  expect(onDisk()).toBe(true);
  runs.eraseTexts('run_1');
  runs.saveConversation('run_1', secret);
  runs.saveFeedback('run_1', { score: 0.5, atMs: 6, comment: secret });
  expect(runs.find('run_1', 'one')).toMatchObject({
    conversation: undefined,
    feedback: { score: 0.5, comment: undefined },
    record: '{"sources":[]}',
    textsErased: true,
  });
  expect(onDisk()).toBe(false);
  close();
  rmSync(home, { recursive: true });
});

test('texts of a run that is not there are dropped, and pruned runs take theirs along', () => {
  const { runs, database, queue, close } = openStores();
  runs.saveConversation('run_0', 'text');
  runs.save(aStoredRun({ id: 'run_1', createdAtMs: 1 }));
  runs.saveConversation('run_1', 'text');
  queue.flush();
  const texts = () => database.prepare('SELECT run_id FROM run_texts').pluck().all();
  expect(texts()).toEqual(['run_1']);
  expect(runs.prune(2)).toBe(1);
  expect(texts()).toEqual([]);
  close();
});
