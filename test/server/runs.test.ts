import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { nanoUsd } from '../../src/cost/money.ts';
import type { PrivacyClass } from '../../src/preferences/privacy.ts';
import { storedRun } from '../../src/router/record.ts';
import type { RunRecord } from '../../src/router/run.ts';
import { type BareServer, keyNamed, startServer } from '../support/bare-server.ts';
import { ask, askChat, errorOf } from '../support/http.ts';
import { aRecord, scriptedOrchestrator } from '../support/scripted-orchestrator.ts';

let server: BareServer;
afterEach(async () => server.close());

const path = '/v1/orchestra/runs';
const keys = [keyNamed('team-a', 'secret-a'), keyNamed('team-b', 'secret-b')];
const asA = { 'x-api-key': 'secret-a' };
const asB = { 'x-api-key': 'secret-b' };

/** Puts records where runs leave theirs. */
function store(...records: Partial<RunRecord>[]): void {
  for (const record of records) server.parts.runs.save(storedRun('anonymous', aRecord(record)));
}

interface Listed {
  readonly data: readonly { readonly run_id: string; readonly created: number }[];
  readonly has_more: boolean;
  readonly last_id: string | null;
}

async function list(query = ''): Promise<Listed> {
  const reply = await ask(server, path + query);
  expect(reply.status).toBe(200);
  return JSON.parse(reply.text) as Listed; // The shape is tested below.
}

const idsOf = ({ data }: Listed) => data.map(({ run_id }) => run_id);

describe('the list', () => {
  test('tells of each run who answered, when, and at what cost, without its turns', async () => {
    server = await startServer();
    store({ runId: 'run_1', createdAtMs: 5_000, cost: nanoUsd(2_000_000) });
    expect((await ask(server, path)).json()).toEqual({
      object: 'list',
      data: [
        {
          run_id: 'run_1',
          kind: 'run',
          status: 'completed',
          created: 5,
          duration_ms: 12,
          requested_model: 'orchestra',
          model: 'loopback/large',
          cost: { currency: 'USD', total: 0.002 },
        },
      ],
      has_more: false,
      first_id: 'run_1',
      last_id: 'run_1',
    });
  });

  test.each([
    ['', ['run_4', 'run_3', 'run_2', 'run_1']],
    ['?created_after=2&created_before=4', ['run_3', 'run_2']],
    ['?status=failed', ['run_3']],
    ['?kind=relay', ['run_2']],
    ['?model=orchestra:cheap', ['run_4']],
    ['?model=loopback/small', ['run_2']],
    ['?kind=run&status=completed&limit=1', ['run_4']],
    ['?after=run_3&limit=100', ['run_2', 'run_1']],
  ])('%s gives what it says, newest first', async (query, expected) => {
    server = await startServer();
    store(
      { runId: 'run_1', createdAtMs: 1_999 },
      { runId: 'run_2', createdAtMs: 2_000, kind: 'relay', model: 'loopback/small', requestedModel: 'loopback/small' },
      { runId: 'run_3', createdAtMs: 3_999, status: 'failed', model: undefined },
      { runId: 'run_4', createdAtMs: 4_000, requestedModel: 'orchestra:cheap' },
    );
    expect(idsOf(await list(query))).toEqual(expected);
  });

  test.each([
    ['?statsu=failed', 'statsu', /Did you mean `status`/],
    ['?status=done', 'status', /completed/],
    ['?limit=0', 'limit', /from 1 to 100/],
    ['?limit=101', 'limit', /from 1 to 100/],
    ['?limit=ten', 'limit', /whole number/],
    ['?limit=1&limit=2', 'limit', /string/],
    ['?created_after=-1', 'created_after', /whole number/],
    ['?after=run_unknown', 'after', /no such run/],
  ])('%s is a 400 on %s', async (query, param, message) => {
    server = await startServer();
    const reply = await ask(server, path + query);
    expect([reply.status, errorOf(reply)['param']]).toEqual([400, param]);
    expect(errorOf(reply)['message']).toMatch(message);
  });

  test('paged through at any size, it holds every run once', async () => {
    server = await startServer();
    const instants = fc.array(fc.integer({ min: 1, max: 4 }), { maxLength: 25 });
    let round = 0;
    await fc.assert(
      fc.asyncProperty(instants, fc.integer({ min: 1, max: 6 }), async (seconds, limit) => {
        round += 1;
        // A model of its own, so that rounds do not see each other's runs.
        const requestedModel = `orchestra:${round}`;
        const ids = seconds.map((_, index) => `run_${round}_${index}`);
        store(...seconds.map((at, index) => ({ runId: ids[index] ?? '', createdAtMs: at * 1000, requestedModel })));
        const seen: string[] = [];
        let page: Listed;
        do {
          const after = seen.length > 0 ? `&after=${seen.at(-1)}` : '';
          page = await list(`?model=${requestedModel}&limit=${limit}${after}`);
          expect(page.data.length).toBeLessThanOrEqual(limit);
          seen.push(...idsOf(page));
        } while (page.has_more);
        expect(seen.toSorted()).toEqual(ids.toSorted());
      }),
      { numRuns: 25 },
    );
  });
});

describe('feedback', () => {
  const say = (body: object | string, id = 'run_1') => ask(server, `${path}/${id}/feedback`, { body });
  const told: unknown[] = [];
  const start = async (record: Partial<RunRecord> = {}) => {
    told.length = 0;
    server = await startServer({
      now: () => 9_000,
      onFeedback: ({ runId, model }, score, before) => told.push([runId, model, score, before]),
    });
    store({ runId: 'run_1', createdAtMs: 1_000, ...record });
  };

  test('is kept with the run, the last word stands, and what learns from it is told both', async () => {
    await start();
    expect((await say({ score: 0.25, comment: 'Too long.' })).json()).toEqual({
      run_id: 'run_1',
      feedback: { score: 0.25, comment: 'Too long.', created: 9 },
    });
    await say({ score: 1 });
    const feedback = { score: 1, created: 9 };
    expect((await ask(server, `${path}/run_1`)).json()).toMatchObject({ feedback });
    expect((await ask(server, path)).json()).toMatchObject({ data: [{ feedback }] });
    expect(told).toEqual([
      ['run_1', 'loopback/large', 0.25, undefined],
      ['run_1', 'loopback/large', 1, 0.25],
    ]);
  });

  test.each<[object | string, string | null, RegExp]>([
    [{ scroe: 1 }, 'scroe', /Did you mean `score`/],
    [{ comment: 'x' }, 'score', /^score: is missing\.$/],
    [{ score: 1, coment: 'x' }, 'coment', /Did you mean `comment`/],
    [{ score: 1.01 }, 'score', /1/],
    [{ score: -0.1 }, 'score', /0/],
    [{ score: '1' }, 'score', /number/],
    [{ score: 1, comment: 'x'.repeat(2001) }, 'comment', /2000/],
    ['[]', null, /object/],
    ['', null, /object/],
  ])('%j is a 400 on %s', async (body, param, message) => {
    await start();
    const reply = await say(body);
    expect([reply.status, errorOf(reply)['param']]).toEqual([400, param]);
    expect(errorOf(reply)['message']).toMatch(message);
    expect(told).toEqual([]);
  });

  test.each<PrivacyClass>(['zdr', 'self_hosted', 'local'])('of a private run (%s) has no comment', async (privacy) => {
    await start({ privacy });
    const refused = await say({ score: 1, comment: 'AMBERFOX' });
    expect([refused.status, errorOf(refused)['param']]).toEqual([400, 'comment']);
    expect(refused.text).not.toContain('AMBERFOX');
    expect((await say({ score: 1 })).status).toBe(200);
  });
});

describe('erasing', () => {
  test('takes texts, comment and sources; money, decisions and the score stay', async () => {
    server = await startServer();
    const id = 'run_1';
    const sources = [{ tool: 'web', title: 'AMBERFOX', url: 'https://example.org/AMBERFOX' }];
    store({ runId: id, sources });
    server.parts.runs.saveConversation(id, JSON.stringify({ messages: [], answer: 'AMBERFOX' }));
    await ask(server, `${path}/${id}/feedback`, { body: { score: 0.5, comment: 'AMBERFOX' } });
    expect((await ask(server, `${path}/${id}`)).json()).toMatchObject({ sources, texts: { answer: 'AMBERFOX' } });

    const erased = await ask(server, `${path}/${id}`, { method: 'DELETE' });
    expect([erased.status, erased.json()]).toEqual([200, { run_id: id, texts_erased: true }]);
    const after = await ask(server, `${path}/${id}`);
    expect(after.text).not.toContain('AMBERFOX');
    expect(after.json()).toMatchObject({
      texts_erased: true,
      feedback: { score: 0.5 },
      cost: { total: 0.0015 },
      turns: [{ slot: 'answer-1' }],
    });
    expect((await ask(server, `${path}/${id}/feedback`, { body: { score: 1, comment: 'x' } })).status).toBe(400);
  });
});

describe('two keys', () => {
  const secret = 'AMBERFOX';
  let runId = '';
  let atWork = '';
  let finish = () => {};
  let done: Promise<unknown> = Promise.resolve();
  const start = async () => {
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const orchestrator = scriptedOrchestrator((spec) => {
      atWork = spec.runId;
      return { before: () => held };
    });
    server = await startServer({ keys, orchestrator });
    runId = 'run_of_a';
    server.parts.runs.save(storedRun('team-a', aRecord({ runId, requestedModel: secret })));
    server.parts.runs.saveConversation(runId, JSON.stringify({ messages: [], answer: secret }));
    await ask(server, `${path}/${runId}/feedback`, { body: { score: 1, comment: secret }, headers: asA });
    done = askChat(server, {}, asA);
    await expect.poll(() => atWork).not.toBe('');
  };

  test.each<[string, () => Parameters<typeof ask>[1], Parameters<typeof ask>[2], number]>([
    ['list', () => path, {}, 200],
    ['list behind a run', () => `${path}?after=${runId}`, {}, 400],
    ['read', () => `${path}/${runId}`, {}, 404],
    ['erase', () => `${path}/${runId}`, { method: 'DELETE' }, 404],
    ['judge', () => `${path}/${runId}/feedback`, { body: { score: 0 } }, 404],
    ['cancel', () => `${path}/${atWork}/cancel`, { method: 'POST' }, 404],
    ['count', () => '/v1/orchestra/usage?since=31', {}, 200],
  ])('one cannot %s what is the other’s', async (_, pathOf, request, status) => {
    await start();
    const reply = await ask(server, pathOf(), { ...request, headers: asB });
    expect(reply.status).toBe(status);
    expect(reply.text).not.toContain(secret);
    if (status === 200) expect(reply.text).not.toMatch(/run_of_a|loopback\/large/);
    // Nothing happened to it either, and its owner can do all of it.
    finish();
    expect(await done).toMatchObject({ status: 200 });
    const own = (await ask(server, `${path}/${runId}`, { headers: asA })).json();
    expect(own).toMatchObject({ texts: { answer: secret }, feedback: { score: 1, comment: secret } });
    atWork = '';
  });

  test('its owner stops a run at work', async () => {
    await start();
    const reply = await ask(server, `${path}/${atWork}/cancel`, { method: 'POST', headers: asA });
    expect(reply.json()).toEqual({ run_id: atWork, status: 'cancelling' });
    finish();
    expect(await done).toMatchObject({ status: 499 });
    atWork = '';
  });
});
