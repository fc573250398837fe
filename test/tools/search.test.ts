import { afterEach, expect, test } from 'vitest';
import { loadContract } from '../../src/contract/load.ts';
import { usageOf } from '../../src/cost/usage.ts';
import type { PrivacyClass } from '../../src/preferences/privacy.ts';
import { createCallLimit } from '../../src/tools/limit-parallel.ts';
import { createRemoteExpert } from '../../src/tools/remote-expert.ts';
import { createSearchTool, type SearchToolOptions } from '../../src/tools/search.ts';
import { type Found, SearchFailure, type SearchRequest, type SearchSource } from '../../src/tools/search-source.ts';
import { createTavilySource } from '../../src/tools/tavily.ts';
import { createOpenAiUpstream } from '../../src/upstream/openai.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';
import { startTavilyServer } from '../support/loopback/tavily-server.ts';
import { aSlot } from '../support/slots.ts';
import { executed, inputOf } from './tool-input.ts';

const contract = loadContract('slots-2');
const slot = aSlot({ id: 'search-1', role: 'search' });
const servers: OpenAiServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

interface RecordingSource extends SearchSource {
  readonly queries: string[];
}

/** A source whose answer is given: what this tool does with sources is the question here. */
function sourceOf(
  name: string,
  privacy: PrivacyClass,
  answer: (request: SearchRequest) => Promise<Found>,
): RecordingSource {
  const queries: string[] = [];
  const search = (request: SearchRequest) => {
    queries.push(request.query);
    return answer(request);
  };
  return { name, meter: `tool:${name}`, privacy, mostUsage: usageOf({ calls: 1 }), search, queries };
}

const document = (text: string) => ({ text, source: 'test', privacy: 'any' as const });
const finds = (name: string, privacy: PrivacyClass) =>
  sourceOf(name, privacy, async () => ({ documents: [document(name)], usage: usageOf({ calls: 1 }) }));
const findsNothing = (name: string, privacy: PrivacyClass) =>
  sourceOf(name, privacy, async () => ({ documents: [], usage: usageOf({ calls: 1 }) }));
const fails = (name: string, privacy: PrivacyClass, failure: SearchFailure) =>
  sourceOf(name, privacy, () => Promise.reject(failure));

async function writerOf(script: OpenAiScript, privacy: PrivacyClass = 'no_training') {
  const server = await startOpenAiServer(script);
  servers.push(server);
  const upstream = createOpenAiUpstream({ name: 'loopback', baseUrl: server.url, apiKey: 'key' });
  return { slot: aSlot({ id: 'answer-2', privacy }), expert: createRemoteExpert({ upstream, model: 'loopback' }) };
}

const toolOf = (part: Omit<SearchToolOptions, 'slot' | 'contract'>) => createSearchTool({ slot, contract, ...part });

test('a writer writes the query, and every meter is read', async () => {
  const usage = { prompt_tokens: 50, completion_tokens: 9 };
  const writer = await writerOf(() => ({ ...replies.says('Let me see. <query>tides  Brest</query>'), usage }));
  const web = finds('web', 'no_training');
  const { outcome, deltas } = await executed(
    toolOf({ sources: [web], writer }),
    inputOf('When is high tide in Brest?'),
  );
  expect(deltas).toEqual([]);
  expect(web.queries).toEqual(['tides Brest']);
  expect(outcome.observation).toEqual({ kind: 'documents', documents: [document('web')] });
  expect(outcome.usage).toMatchObject([
    { meter: 'answer-2', usage: { inputTokens: 50, outputTokens: 9 } },
    { meter: 'tool:web', usage: { calls: 1 } },
  ]);
});

test('without a writer the problem is the query, and only own machines see it', async () => {
  const [web, own] = [finds('web', 'zdr'), finds('own', 'self_hosted')];
  const problem = `Wie hoch ist die Flut?\n${'😀'.repeat(500)}`;
  const { outcome } = await executed(toolOf({ sources: [web, own] }), inputOf(problem));
  expect(web.queries).toEqual([]);
  expect([...(own.queries[0] ?? '')]).toHaveLength(390);
  expect(own.queries[0]).toMatch(/^Wie hoch ist die Flut\? 😀+$/u);
  expect(outcome.usage.map(({ meter }) => meter)).toEqual(['tool:own']);
});

test.each([
  ['fails', (): OpenAiScript => () => replies.serverError()],
  ['writes no query', (): OpenAiScript => () => replies.says('I do not know.')],
])('a writer that %s leaves the problem to own machines', async (_name, script) => {
  const writer = await writerOf(script());
  const [web, own] = [finds('web', 'zdr'), finds('own', 'local')];
  const { outcome } = await executed(toolOf({ sources: [web, own], writer }), inputOf('What is our refund policy?'));
  expect(web.queries).toEqual([]);
  expect(own.queries).toEqual(['What is our refund policy?']);
  expect(outcome.usage.map(({ meter }) => meter)).toEqual(['answer-2', 'tool:own']);
});

test('a writer below the class of the run is not asked', async () => {
  const writer = await writerOf(() => replies.says('<query>x</query>'), 'no_training');
  const own = finds('own', 'local');
  const tool = toolOf({ sources: [own], writer });
  const input = inputOf('A private matter', { privacy: 'self_hosted' });
  const { outcome } = await executed(tool, input);
  expect(servers[0]?.requests).toEqual([]);
  expect(own.queries).toEqual(['A private matter']);
  expect(outcome.observation.kind).toBe('documents');
});

test('a query is written only once the slot of its writer has a lane, and the lane is free again before the search', async () => {
  const limit = createCallLimit(1);
  const writer = { ...(await writerOf(() => replies.says('<query>tides</query>'))), limit };
  const web = sourceOf('web', 'any', async () => {
    const free = await limit.enter(AbortSignal.timeout(5_000));
    return { documents: [document(free ? 'free' : 'taken')], usage: usageOf({ calls: 1 }) };
  });
  const leave = await limit.enter(new AbortController().signal);
  const search = executed(toolOf({ sources: [web], writer }), inputOf('When is high tide?'));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(servers[0]?.requests).toEqual([]);
  leave?.();
  expect((await search).outcome.observation).toEqual({ kind: 'documents', documents: [document('free')] });
  expect(web.queries).toEqual(['tides']);
});

test('a writer whose slot stays busy leaves the problem to own machines, and costs nothing', async () => {
  const limit = createCallLimit(1, 20);
  const writer = { ...(await writerOf(() => replies.says('<query>x</query>'))), limit };
  await limit.enter(new AbortController().signal);
  const [web, own] = [finds('web', 'zdr'), finds('own', 'local')];
  const { outcome } = await executed(toolOf({ sources: [web, own], writer }), inputOf('What is our refund policy?'));
  expect([web.queries, own.queries]).toEqual([[], ['What is our refund policy?']]);
  expect(outcome.usage.map(({ meter }) => meter)).toEqual(['tool:own']);
});

test('a search that is cancelled while its writer waits for a lane asks nobody and costs nothing', async () => {
  const limit = createCallLimit(1);
  const writer = { ...(await writerOf(() => replies.says('<query>x</query>'))), limit };
  const leave = await limit.enter(new AbortController().signal);
  const own = finds('own', 'local');
  const leaving = new AbortController();
  const input = inputOf('When is high tide?', { signal: leaving.signal });
  const search = executed(toolOf({ sources: [own], writer }), input);
  leaving.abort();
  expect((await search).outcome).toMatchObject({ observation: { kind: 'failed' }, usage: [] });
  expect([own.queries, servers[0]?.requests]).toEqual([[], []]);
  leave?.();
  expect(await limit.enter(AbortSignal.timeout(5_000))).toBeTypeOf('function');
});

test('a source below the class of the run is passed over, with the bound as well', async () => {
  const writer = await writerOf(() => replies.says('<query>x</query>'), 'local');
  const [web, own] = [finds('web', 'zdr'), finds('own', 'self_hosted')];
  const tool = toolOf({ sources: [web, own], writer });
  const input = inputOf('A private matter', { privacy: 'self_hosted' });
  await executed(tool, input);
  expect([web.queries, own.queries]).toEqual([[], ['x']]);
  expect(tool.bound(input).map(({ meter }) => meter)).toEqual(['answer-2', 'tool:own']);
  expect(tool.bound(inputOf('x')).map(({ meter }) => meter)).toEqual(['answer-2', 'tool:web', 'tool:own']);
});

test('a source that the caller forbids is not asked, nor is money held for it', async () => {
  const [web, own] = [finds('web', 'local'), finds('own', 'local')];
  const tool = toolOf({ sources: [web, own] });
  const input = inputOf('x', { admitsSource: (name) => name !== 'web' });
  await executed(tool, input);
  expect([web.queries, own.queries]).toEqual([[], ['x']]);
  expect(tool.bound(input).map(({ meter }) => meter)).toEqual(['tool:own']);
});

test('a source that fails or knows nothing leads to the next, and all are billed', async () => {
  const billed = new SearchFailure('unavailable', 'Silent.', { usage: usageOf({ calls: 1 }) });
  const sources = [
    findsNothing('first', 'local'),
    fails('second', 'local', billed),
    finds('third', 'local'),
    finds('fourth', 'local'),
  ];
  const { outcome } = await executed(toolOf({ sources }), inputOf('x'));
  expect(outcome.observation).toEqual({ kind: 'documents', documents: [document('third')] });
  expect(outcome.usage).toMatchObject([
    { meter: 'tool:first', usage: { calls: 1 } },
    { meter: 'tool:second', usage: { calls: 1 }, estimated: true },
    { meter: 'tool:third', usage: { calls: 1 } },
  ]);
  expect(sources[3]?.queries).toEqual([]);
});

test('when every source fails the reasons are told, and hope remains where one may recover', async () => {
  const [spent, busy] = [new SearchFailure('exhausted', 'Used up.'), new SearchFailure('rate_limited', 'Too fast.')];
  const both = toolOf({ sources: [fails('a', 'local', spent), fails('b', 'local', busy)] });
  expect((await executed(both, inputOf('x'))).outcome.observation).toEqual({
    kind: 'failed',
    reason: 'Used up. Too fast.',
    retryable: true,
  });
  const one = toolOf({ sources: [fails('a', 'local', spent)] });
  expect((await executed(one, inputOf('x'))).outcome.observation).toMatchObject({ retryable: false });
});

test('nothing found, nobody admitted and nothing asked are failures that stay', async () => {
  const observationOf = async (sources: SearchSource[], problem: string) =>
    (await executed(toolOf({ sources }), inputOf(problem))).outcome.observation;
  const failed = { kind: 'failed', retryable: false };
  expect(await observationOf([findsNothing('a', 'local')], 'x')).toEqual({
    ...failed,
    reason: 'The search found nothing.',
  });
  expect(await observationOf([finds('web', 'any')], 'x')).toEqual({
    ...failed,
    reason: 'No search source may see this request.',
  });
  expect(await observationOf([finds('a', 'local')], ' \n ')).toEqual({
    ...failed,
    reason: 'There is nothing to search for.',
  });
});

test('a fired signal is thrown, whoever is being asked', async () => {
  const writing = new AbortController();
  const writer = await writerOf(() => replies.silence);
  const asked = executed(toolOf({ sources: [finds('web', 'any')], writer }), inputOf('x', { signal: writing.signal }));
  await expect.poll(() => servers[0]?.requests.length).toBe(1);
  writing.abort();
  await expect(asked).rejects.toMatchObject({ name: 'AbortError' });

  const searching = new AbortController();
  const leaving = sourceOf('own', 'local', () => {
    searching.abort();
    return Promise.reject(new Error('cut'));
  });
  const searched = executed(toolOf({ sources: [leaving] }), inputOf('x', { signal: searching.signal }));
  await expect(searched).rejects.toMatchObject({ name: 'AbortError' });
});

test('the whole chain works over the wire', async () => {
  const writer = await writerOf(() => replies.says('<query>loopback</query>'));
  const server = await startTavilyServer();
  const options = { name: 'tavily', meter: 'tool:tavily', apiKey: 'key', privacy: 'no_training' } as const;
  const tavily = createTavilySource({ ...options, baseUrl: server.url });
  const { outcome } = await executed(toolOf({ sources: [tavily], writer }), inputOf('What is loopback?'));
  await server.close();
  expect(outcome.observation).toMatchObject({ kind: 'documents', documents: [{ text: 'About loopback.' }] });
});
