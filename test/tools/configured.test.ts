import { afterEach, expect, test } from 'vitest';
import type { Slot } from '../../src/preferences/slot.ts';
import { createScriptedPolicy } from '../../src/router/policies/scripted.ts';
import type { Policy } from '../../src/router/policy.ts';
import { reportOf } from '../end-to-end/report.ts';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { type SearxngServer, startSearxngServer } from '../support/loopback/searxng-server.ts';

/** Tools as the configuration writes them, through a whole gateway. */

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const part of open.splice(0).toReversed()) await part.close();
});

async function start(options: TestGatewayOptions): Promise<TestGateway> {
  const gateway = await startTestGateway(options);
  open.push(gateway);
  return gateway;
}

async function searxng(): Promise<SearxngServer> {
  const server = await startSearxngServer();
  open.push(server);
  return server;
}

const loopbackSlot = (model: string) => ({
  upstream: 'loopback',
  model,
  quality: 'good',
  price: { input: 1, output: 1 },
});
const answer = { role: 'answer', ...loopbackSlot('dear') };
const ask = (gateway: TestGateway, preferences: object = {}) =>
  gateway.client.chat.completions.create({
    model: 'orchestra',
    messages: [{ role: 'user', content: 'When is high tide in Brest?' }],
    ...({ preferences } as object), // Ours, unknown to the client's types.
  });

test('a source that the request denies sees nothing, while its slot goes on without it', async () => {
  const [first, second] = [await searxng(), await searxng()];
  const gateway = await start({
    script: [{ role: 'search' }, { role: 'answer' }],
    config: {
      tools: {
        first: { kind: 'searxng', base_url: first.url, privacy: 'self_hosted' },
        second: { kind: 'searxng', base_url: second.url, privacy: 'self_hosted' },
      },
      slots: { 'search-1': { role: 'search', tools: ['first', 'second'], quality: 'the web' }, 'answer-1': answer },
    },
  });
  const { limits_applied: limits } = reportOf(await ask(gateway, { tools: { deny: ['tool:first'] } }));
  expect(limits).toMatchObject([
    { limit: 'tools', removed: [], narrowed: [{ slot: 'search-1', tool: 'first', reason: 'denied by `tool:first`' }] },
  ]);
  expect([first.asked.length, second.asked.length]).toEqual([0, 1]);
  expect(JSON.stringify(gateway.openAi.requests.at(-1)?.body)).toContain('About When is high tide in Brest?');
});

test('whoever decides sees a search slot as what its remaining sources make of it', async () => {
  const [own, web] = [await searxng(), await searxng()];
  const scripted = createScriptedPolicy([{ role: 'answer' }]);
  const seen: Slot[] = [];
  const policy: Policy = {
    ...scripted,
    decide: (input) => {
      seen.push(...input.candidates.map(({ slot }) => slot).filter(({ role }) => role === 'search'));
      return scripted.decide(input);
    },
  };
  const gateway = await start({
    policy,
    config: {
      tools: {
        own: { kind: 'searxng', base_url: own.url, privacy: 'self_hosted' },
        web: { kind: 'searxng', base_url: web.url, privacy: 'any' },
      },
      slots: { 'search-1': { role: 'search', tools: ['own', 'web'], quality: 'the web' }, 'answer-1': answer },
    },
  });
  await ask(gateway);
  await ask(gateway, { tools: { deny: ['tool:own'] } });
  expect(seen.map(({ privacy, tools }) => [privacy, tools])).toEqual([
    ['self_hosted', ['own', 'web']],
    ['any', ['web']],
  ]);
});

test('a slot whose only source of the wanted class is denied leaves, instead of failing when it is asked', async () => {
  const [own, web] = [await searxng(), await searxng()];
  const gateway = await start({
    script: [{ role: 'search' }, { role: 'answer' }],
    config: {
      tools: {
        own: { kind: 'searxng', base_url: own.url, privacy: 'self_hosted' },
        web: { kind: 'searxng', base_url: web.url, privacy: 'any' },
      },
      slots: { 'search-1': { role: 'search', tools: ['own', 'web'], quality: 'the web' }, 'answer-1': answer },
    },
  });
  const preferences = { privacy: 'self_hosted', tools: { deny: ['tool:own'] }, explain: 'full' };
  const { limits_applied: limits, turns } = reportOf(await ask(gateway, preferences));
  expect(limits).toMatchObject([
    { limit: 'privacy', narrowed: [{ slot: 'search-1', tool: 'web', reason: 'its class is any' }] },
    { limit: 'tools', removed: [{ slot: 'search-1', reason: 'denied by `tool:own`' }] },
  ]);
  expect(turns.map(({ outcome }) => outcome)).toEqual(['answered']);
  expect([own.asked.length, web.asked.length]).toEqual([0, 0]);
});

test('a slot takes as many calls at a time as its configuration says', async () => {
  let going = 0;
  let most = 0;
  const gateway = await start({
    openAi: async () => {
      going += 1;
      most = Math.max(most, going);
      await new Promise((resolve) => setTimeout(resolve, 30));
      going -= 1;
      return replies.says('At noon.');
    },
    config: { slots: { 'answer-1': { ...answer, parallel: 2 } } },
  });
  const answers = await Promise.all(Array.from({ length: 6 }, () => ask(gateway)));
  expect(answers.map(({ choices }) => choices[0]?.message.content)).toEqual(Array(6).fill('At noon.'));
  expect(most).toBe(2);
});

test('queries that an answer slot writes count among its calls', async () => {
  let going = 0;
  let most = 0;
  const web = await searxng();
  const gateway = await start({
    script: [{ role: 'search' }, { role: 'answer' }],
    openAi: async ({ body }) => {
      going += 1;
      most = Math.max(most, going);
      await new Promise((resolve) => setTimeout(resolve, 20));
      going -= 1;
      const isAnswer = JSON.stringify(body).includes('About tides Brest');
      return replies.says(isAnswer ? 'At noon.' : '<query>tides Brest</query>');
    },
    config: {
      tools: { web: { kind: 'searxng', base_url: web.url, privacy: 'any' } },
      slots: {
        'search-1': { role: 'search', tools: ['web'], writer: 'answer-1', quality: 'the web', parallel: 2 },
        'answer-1': { ...answer, parallel: 1 },
      },
    },
  });
  const answers = await Promise.all(Array.from({ length: 4 }, () => ask(gateway)));
  expect(answers.map(({ choices }) => choices[0]?.message.content)).toEqual(Array(4).fill('At noon.'));
  expect([most, gateway.openAi.requests.length]).toEqual([1, 8]);
});

test('Pyodide runs the code of a reasoning slot', async () => {
  const gateway = await start({
    script: [{ role: 'enhance_reasoning' }, { role: 'answer' }],
    openAi: ({ body }) =>
      replies.says(body['model'] === 'coder' ? '```python\nimport sys\nprint(sys.platform, 6 * 7)\n```' : 'It is 42.'),
    config: {
      tools: { python: { kind: 'sandbox', backend: 'pyodide' } },
      slots: {
        'reasoner-1': { role: 'enhance_reasoning', ...loopbackSlot('coder'), sandbox: 'python' },
        'answer-1': answer,
      },
    },
  });
  expect(gateway.notes).toContainEqual(expect.stringMatching(/^python: pyodide, Python 3\.\d+\.\d+$/));
  await ask(gateway);
  expect(JSON.stringify(gateway.openAi.requests.at(-1)?.body)).toContain('emscripten 42');
}, 120_000);
