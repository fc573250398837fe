import { afterAll, beforeAll, expect, test } from 'vitest';
import { resolveModel } from '../../src/server/served-models.ts';
import { type BareServer, relayedModel, startServer } from '../support/bare-server.ts';
import { ask, askChat, errorOf } from '../support/http.ts';

let server: BareServer;
beforeAll(async () => {
  server = await startServer({}, { url: 'http://127.0.0.1:9/v1', models: [relayedModel('m')] });
});
afterAll(() => server.close());

interface Listed {
  readonly id: string;
  readonly object: string;
  readonly created: number;
  readonly owned_by: string;
}
const listed = async (path: string, headers = {}) => (await ask(server, path, { headers })).json()['data'] as Listed[]; // Checked by the tests.

test('M01 every model has id, object, created in whole seconds and owned_by', async () => {
  const models = await listed('/v1/models');
  expect(models.length).toBeGreaterThan(3);
  for (const model of models) {
    expect(model).toMatchObject({ id: expect.any(String), object: 'model', owned_by: expect.any(String) });
    expect(Number.isInteger(model.created)).toBe(true);
  }
});

test('M02 unknown query parameters are ignored', async () => {
  expect(await listed('/v1/models?client_version=1.2&limit=5&after_id=x')).toEqual(await listed('/v1/models'));
});

test("M03 Anthropic's keys are there too", async () => {
  const reply = await ask(server, '/v1/models', { headers: { 'anthropic-version': '2023-06-01' } });
  const keys = { type: 'model', display_name: 'orchestra', created_at: expect.stringMatching(/Z$/) };
  expect(reply.json()).toMatchObject({ has_more: false, first_id: 'orchestra', last_id: 'loopback/m' });
  expect((await listed('/v1/models'))[0]).toMatchObject(keys);
});

test('M04 one model is found, an unknown one is 404 with the nearest name', async () => {
  expect((await ask(server, '/v1/models/orchestra:cheap')).json()).toMatchObject({ id: 'orchestra:cheap' });
  const reply = await ask(server, '/v1/models/orchestra:cheep');
  expect(reply.status).toBe(404);
  expect(errorOf(reply)).toMatchObject({ code: 'model_not_found', param: 'model' });
  expect(errorOf(reply)['message']).toContain('`orchestra:cheap`');
});

test('M05 the virtual model is listed under both names with every profile, relays with price, context and class', async () => {
  const models = await listed('/v1/models');
  const ids = models.map(({ id }) => id);
  expect(ids).toEqual(
    expect.arrayContaining(['orchestra', 'auto', 'orchestra:fast', 'auto:local', 'orchestra:floor', 'loopback/m']),
  );
  expect(models.at(-1)).toMatchObject({ context_length: 8192, privacy: 'any', pricing: { input_per_million: 1 } });
  expect(ids.filter((id) => id !== 'loopback/m' && /o1|o3|o4/.test(id))).toEqual([]);
});

test.each(['orchestra', 'auto', 'orchestra:private', 'auto:nitro'])('M05 %s can be asked', async (model) => {
  expect((await askChat(server, { model })).json()).toMatchObject({ model });
});

test.each(['gpt-5', 'orchestra:nope', 'elsewhere/m', 'loopback/other', 'orchestra:__proto__'])(
  'M04 a chat with model %s is 404 model_not_found',
  async (model) => {
    const reply = await askChat(server, { model });
    expect(reply.status).toBe(404);
    expect(errorOf(reply)).toMatchObject({ code: 'model_not_found', param: 'model' });
  },
);

test('a name longer than any model’s is not served, even where a pattern admits it', () => {
  const loopback = server.parts.relays.get('loopback');
  if (!loopback) throw new Error('start with a relay');
  const open = { ...loopback, find: (name: string) => relayedModel(name) };
  const parts = { ...server.parts, relays: new Map([['loopback', open]]) };
  expect(resolveModel(`loopback/${'m'.repeat(247)}`, parts).kind).toBe('relay');
  expect(() => resolveModel(`loopback/${'m'.repeat(248)}`, parts)).toThrow(/not served/);
});
