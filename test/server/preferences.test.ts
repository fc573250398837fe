import { afterAll, beforeAll, expect, test } from 'vitest';
import { ratesFrom } from '../../src/cost/rates.ts';
import type { EffectivePreferences } from '../../src/preferences/request.ts';
import type { RunRecord } from '../../src/router/run.ts';
import { type BareServer, startServer } from '../support/bare-server.ts';
import { askChat, errorOf } from '../support/http.ts';
import { type ScriptedOrchestrator, scriptedOrchestrator } from '../support/scripted-orchestrator.ts';
import { aSlot } from '../support/slots.ts';

let server: BareServer;
let orchestrator: ScriptedOrchestrator;
beforeAll(async () => {
  orchestrator = scriptedOrchestrator();
  const slots = [
    aSlot({ id: 'answer-1', upstream: 'near', rates: ratesFrom({ input: 1, output: 4 }) }),
    aSlot({ id: 'answer-2', upstream: 'far', rates: ratesFrom({ input: 3, output: 9, per_call: '0.01' }) }),
    aSlot({ id: 'answer-3', upstream: 'far', rates: undefined }),
  ];
  server = await startServer({ orchestrator, slots, anonymousCeiling: { max_cost_usd: 2, privacy: 'no_training' } });
});
afterAll(() => server.close());

type Headers = Readonly<Record<string, string>>;
const header = (value: string): Headers => ({ 'x-orchestra-preferences': value });

async function effective(fields: object, headers: Headers = {}): Promise<EffectivePreferences> {
  const before = orchestrator.specs.length;
  const reply = await askChat(server, fields, headers);
  expect([reply.status, reply.text.slice(0, 200)]).toEqual([200, expect.any(String)]);
  const spec = orchestrator.specs[before];
  if (!spec) throw new Error('the loop was not asked');
  return spec.preferences;
}

test.each<[string, object, Headers]>([
  ['the body', { preferences: { max_cost_usd: 0.5 } }, {}],
  ['a header in JSON', {}, header('{"max_cost_usd": 0.5}')],
  ['a header in base64url', {}, header(Buffer.from('{"max_cost_usd":0.5}').toString('base64url'))],
  ['metadata', { metadata: { orchestra_max_cost_usd: '0.5', other: 'kept' } }, {}],
  ['max_cost', { max_cost: 0.5 }, {}],
])('a limit is read from %s', async (_, fields, headers) => {
  expect((await effective(fields, headers)).limits.maxCost).toBe(5e8);
});

test('the strictest limit of all places stands, and a ceiling can only be tightened', async () => {
  const fields = { preferences: { max_cost_usd: 5, privacy: 'any' }, metadata: { orchestra_max_cost_usd: '1.5' } };
  const { limits, sources } = await effective(fields, header('{"max_cost_usd": 1.75, "privacy": "zdr"}'));
  expect([limits.maxCost, limits.privacy]).toEqual([1.5e9, 'zdr']);
  expect(sources).toMatchObject({ max_cost_usd: 'metadata', privacy: 'header' });
  const loose = await effective({ preferences: { max_cost_usd: 50, privacy: 'any' } });
  expect([loose.limits.maxCost, loose.limits.privacy]).toEqual([2e9, 'no_training']);
});

test.each<[string, object, Headers, string]>([
  ['the body', { model: 'orchestra:fast', preferences: { optimize: 'best' } }, header('{"optimize":"cheap"}'), 'best'],
  ['then the header', { model: 'orchestra:fast' }, header('{"optimize":"cheap"}'), 'cheap'],
  ['then metadata', { model: 'orchestra:fast', metadata: { orchestra_optimize: 'cheap' } }, {}, 'cheap'],
  ['then the suffix', { model: 'orchestra:fast', service_tier: 'flex' }, {}, 'fast'],
  ['then the service tier', { service_tier: 'flex' }, {}, 'cheap'],
  ['then the service tier', { service_tier: 'priority' }, {}, 'fast'],
  ['else balanced', { service_tier: 'auto' }, {}, 'balanced'],
])('the profile comes from %s', async (_, fields, headers, profile) => {
  expect((await effective(fields, headers)).profile).toBe(profile);
});

test('weights override a profile key by key', async () => {
  const { weights } = await effective({ preferences: { optimize: 'cheap', weights: { latency: 0.5 } } });
  expect(weights).toMatchObject({ quality: 0.2, cost: 0.8, latency: 0.5 });
});

test.each<[string, object, Headers]>([
  ['preferences.max_cost', { preferences: { max_cost: 1 } }, {}],
  ['preferences.max_cost_usd', { preferences: { max_cost_usd: '1' } }, {}],
  ['preferences.weights.speed', { preferences: { weights: { speed: 1 } } }, {}],
  ['preferences', { preferences: [] }, {}],
  ['preferences.optimize', { preferences: { optimize: 'cheapest' } }, {}],
  ['preferences.tools.deny.0', { preferences: { tools: { deny: ['answer-9'] } } }, {}],
  ['x-orchestra-preferences.privcy', {}, header('{"privcy":"zdr"}')],
  ['x-orchestra-preferences', {}, header('{"privacy":')],
  ['x-orchestra-preferences', {}, header(`{"instruction":"${'x'.repeat(5000)}"}`)],
  ['metadata.orchestra_privcy', { metadata: { orchestra_privcy: 'zdr' } }, {}],
  ['max_cost', { max_cost: 'much' }, {}],
  ['provider.zdr', { provider: { zdr: 'yes' } }, {}],
  ['provider.only', { provider: { only: Array.from({ length: 257 }, (_, n) => `p${n}`) } }, {}],
  ['max_cost', { max_cost: 1e300 }, {}],
  ['preferences.weights.tools.anwser', { preferences: { weights: { tools: { anwser: 1 } } } }, {}],
  ['provider.max_price.prompt', { provider: { max_price: { prompt: 'dear' } } }, {}],
])('a mistake at %s is 400 and names the place', async (param, fields, headers) => {
  const reply = await askChat(server, fields, headers);
  expect([reply.status, errorOf(reply)['param']]).toEqual([400, param]);
});

test('a misspelt key is answered with the nearest valid one', async () => {
  const reply = await askChat(server, { preferences: { max_cost_us: 1 } });
  expect(errorOf(reply)['message']).toContain('`max_cost_usd`');
});

test("OpenRouter's provider becomes preferences", async () => {
  const { profile, limits } = await effective({
    provider: { sort: 'price', zdr: true, only: ['near', 'far'], ignore: ['nowhere', 'far'], data_collection: 'deny' },
  });
  expect([profile, limits.privacy]).toEqual(['cheap', 'zdr']);
  expect([limits.allow, limits.deny]).toEqual([[['upstream:near', 'upstream:far']], ['upstream:far']]);
  expect((await effective({ provider: { data_collection: 'deny' } })).limits.privacy).toBe('no_training');
});

test('max_price removes dearer slots and slots whose price is unknown', async () => {
  const { limits } = await effective({ provider: { max_price: { prompt: 2, completion: '8.5' } } });
  expect(limits.deny).toEqual(['slot:answer-2', 'slot:answer-3']);
  const { limits: byCall } = await effective({ provider: { max_price: { request: 0.009 } } });
  expect(byCall.deny).toEqual(['slot:answer-2', 'slot:answer-3']);
  expect((await effective({ provider: { max_price: { request: '0.01' } } })).limits.deny).toEqual(['slot:answer-3']);
});

test('what has no meaning here is ignored with a warning', async () => {
  const reply = await askChat(server, {
    provider: { order: ['near'], allow_fallbacks: false, sort: 'beauty', max_price: { image: 1 } },
  });
  const { warnings } = reply.json()['x_orchestra'] as Pick<RunRecord, 'warnings'>; // Shape of the report.
  expect(warnings.map(({ message }) => message)).toEqual([
    expect.stringContaining('provider.order'),
    expect.stringContaining('provider.allow_fallbacks'),
    expect.stringContaining('provider.sort'),
    expect.stringContaining('provider.max_price.image'),
  ]);
});
