import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import { chunksOf, deltasOf, user } from '../support/http.ts';

/** What is left of a run: its texts, its sources and its money, on top of the real loop. */
let gateway: TestGateway;
afterEach(async () => gateway.close());

const search = { role: 'search', slot: 'search-1' } as const;
const answer = { role: 'answer', slot: 'answer-1' } as const;
const searches: TestGatewayOptions = { script: [search, answer] };

async function chat(fields: object = {}, headers: Readonly<Record<string, string>> = {}) {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model: 'orchestra', messages: user('What is AMBERFOX?'), ...fields }),
  });
  return { text: await response.text(), runId: response.headers.get('x-orchestra-run-id') };
}

async function get(path: string, headers: Readonly<Record<string, string>> = {}) {
  const response = await fetch(gateway.url + path, { headers });
  expect(response.status).toBe(200);
  const text = await response.text();
  return { text, json: JSON.parse(text) };
}

const runOf = async ({ runId }: { readonly runId: string | null }) => get(`/v1/orchestra/runs/${runId}`);

describe('texts', () => {
  const on = { trace: { texts: 'on' } };

  test.each([false, true])('are kept beside the record where the operator wants it, stream %s', async (stream) => {
    gateway = await startTestGateway({ config: on });
    const { json } = await runOf(await chat({ stream }));
    expect(json.texts).toEqual({
      messages: [{ role: 'user', content: 'What is AMBERFOX?' }],
      answer: 'Hello from loopback.',
    });
  });

  test('are not kept otherwise', async () => {
    gateway = await startTestGateway();
    const { text, json } = await runOf(await chat());
    expect(json).not.toHaveProperty('texts');
    expect(text).not.toContain('AMBERFOX');
  });

  test.each(['zdr', 'self_hosted'])('of a private run (%s) are never kept', async (privacy) => {
    gateway = await startTestGateway({ config: on });
    const { text, json } = await runOf(await chat({ preferences: { privacy } }));
    expect(json).toMatchObject({ privacy, status: 'completed' });
    expect(text).not.toMatch(/AMBERFOX|Hello/);
  });

  test('of a run that a confidential document made private are not kept', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'orchestra-kept-'));
    writeFileSync(join(folder, 'note.md'), '# AMBERFOX\n\nAMBERFOX is a project of ours.\n');
    const base = { upstream: 'loopback', model: 'dear', quality: 'good', price: { input: 1, output: 4 } };
    gateway = await startTestGateway({
      ...searches,
      slots: {
        'search-1': { role: 'search', tools: ['docs'], quality: 'our documents' },
        'answer-1': { role: 'answer', ...base },
      },
      config: {
        ...on,
        tools: { docs: { kind: 'local_search', folders: [folder], privacy: 'self_hosted' } },
      },
    });
    const reply = await chat();
    const own = { tool: 'docs', title: 'AMBERFOX', url: 'file:note.md#amberfox' };
    const answered = JSON.parse(reply.text);
    expect(answered.x_orchestra.sources).toEqual([own]);
    expect(answered.choices[0].message).not.toHaveProperty('annotations');
    expect(JSON.stringify(gateway.openAi.requests)).toContain(`Doc 1 (${own.title}, ${own.url}): `);
    const { text, json } = await runOf(reply);
    rmSync(folder, { recursive: true });
    expect(json).toMatchObject({ privacy: 'self_hosted', turns: [{ outcome: 'documents: 1' }, {}] });
    expect(text).not.toMatch(/AMBERFOX|Hello/);
  });
});

describe('R05 web sources', () => {
  const citation = {
    type: 'url_citation',
    url_citation: { url: 'https://example.org/loopback', title: 'Loopback', start_index: 0, end_index: 0 },
  };

  test('are annotations of the message, and in the record', async () => {
    gateway = await startTestGateway(searches);
    const reply = await chat();
    expect(JSON.parse(reply.text).choices[0].message.annotations).toEqual([citation]);
    const { url, title } = citation.url_citation;
    const sources = [{ tool: 'web', title, url }];
    expect(JSON.parse(reply.text).x_orchestra.sources).toEqual(sources);
    expect((await runOf(reply)).json.sources).toEqual(sources);
  });

  test('are named to whoever writes the answer', async () => {
    gateway = await startTestGateway(searches);
    await chat();
    expect(JSON.stringify(gateway.openAi.requests.at(-1)?.body)).toContain(
      'Doc 1 (Loopback, https://example.org/loopback): About ',
    );
  });

  test('are one delta of their own before the finish chunk', async () => {
    gateway = await startTestGateway(searches);
    const chunks = chunksOf((await chat({ stream: true })).text);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop');
    expect(deltasOf(chunks).at(-2)).toEqual({ annotations: [citation] });
    expect(deltasOf(chunks).filter(({ annotations }) => annotations)).toHaveLength(1);
  });

  test('of a private run are told and not kept', async () => {
    gateway = await startTestGateway(searches);
    const reply = await chat({ preferences: { privacy: 'zdr' } });
    expect(JSON.parse(reply.text).choices[0].message.annotations).toEqual([citation]);
    expect((await runOf(reply)).json.sources).toEqual([]);
  });

  test('are pages only, each once', async () => {
    const found = (url: string) => ({ title: '', url, content: `About ${url}.`, score: 0.9 });
    const urls = ['javascript:alert(1)', 'ftp://example.org/', 'https://a.example/', 'https://a.example/'];
    gateway = await startTestGateway({
      ...searches,
      tavily: () => ({ kind: 'results', results: urls.map(found) }),
    });
    const { annotations } = JSON.parse((await chat()).text).choices[0].message;
    expect(annotations.map(({ url_citation }: typeof citation) => url_citation)).toEqual([
      { url: 'https://a.example/', title: 'https://a.example/', start_index: 0, end_index: 0 },
    ]);
  });

  test('are not spoken of where nothing was looked up', async () => {
    gateway = await startTestGateway();
    expect((await chat()).text).not.toMatch(/annotations|"sources"/);
  });
});

describe('usage', () => {
  const keys = {
    auth: 'keys',
    keys: [
      { name: 'team-a', env: 'A', ceiling: { max_cost_usd: 0.5, max_cost_usd_per_day: 1 } },
      { name: 'team-b', env: 'B' },
    ],
  };
  const environment = { A: 'secret-a', B: 'secret-b' };
  const asA = { 'x-api-key': 'secret-a' };
  const usage = async (headers = {}, query = '') => (await get(`/v1/orchestra/usage${query}`, headers)).json;

  test('is the sum of what this key’s answers cost, by model and tool', async () => {
    gateway = await startTestGateway({ ...searches, config: { server: keys }, environment });
    const costs: number[] = [];
    for (const model of ['orchestra', 'orchestra', 'loopback/dear']) {
      costs.push(JSON.parse((await chat({ model }, asA)).text).usage.cost);
    }
    await chat({}, { 'x-api-key': 'secret-b' });
    const nano = (usd: number) => Math.round(usd * 1e9);
    const told = await usage(asA, '?since=31');
    const spent = costs.reduce((sum, cost) => sum + nano(cost), 0);
    expect(nano(told.total)).toBe(spent);
    expect(told.by_tool).toEqual([{ tool: 'web', calls: 2, duration_ms: expect.any(Number), cost: 0.016 }]);
    expect(told.by_model).toMatchObject([{ model: 'loopback/dear', calls: 3 }]);
    expect(nano(told.by_tool[0].cost) + nano(told.by_model[0].cost)).toBe(spent);
    expect(told.by_day).toHaveLength(1);
    const { day, request } = told.windows;
    expect([request.limit, day.limit, day.held]).toEqual([0.5, 1, 0]);
    expect([nano(day.spent), nano(day.remaining)]).toEqual([spent, 1e9 - spent]);
  });

  test('of a key that did nothing is nothing', async () => {
    gateway = await startTestGateway({ config: { server: keys }, environment });
    await chat({}, asA);
    expect(await usage({ 'x-api-key': 'secret-b' })).toMatchObject({
      total: 0,
      by_day: [],
      by_model: [],
      by_tool: [],
      windows: { request: { limit: null }, day: { limit: null, spent: 0, remaining: null } },
    });
  });

  test('without keys is that of everybody, under the ceiling for callers without one', async () => {
    const config = { ceiling: { max_cost_usd_per_day: 2 }, defaults: { max_cost_usd: 0.1 } };
    gateway = await startTestGateway({ config });
    const { cost } = JSON.parse((await chat()).text).usage;
    expect(await usage()).toMatchObject({ total: cost, windows: { request: { limit: 0.1 }, day: { limit: 2 } } });
    const list = (await get('/v1/orchestra/runs')).json;
    expect(list.data).toHaveLength(1);
  });

  test.each(['?since=0', '?since=32', '?days=3'])('%s is a 400', async (query) => {
    gateway = await startTestGateway();
    expect((await fetch(`${gateway.url}/v1/orchestra/usage${query}`)).status).toBe(400);
  });
});
