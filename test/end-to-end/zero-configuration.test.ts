import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultConfig } from '../../src/assembly/defaults.ts';
import { buildGateway, type Gateway } from '../../src/assembly/gateway.ts';
import { decide } from './report.ts';

/** What somebody gets who has nothing: no key, no configuration, no weights. */
const home = mkdtempSync(join(tmpdir(), 'orchestra-zero-'));
let gateway: Gateway;
let url: string;
let client: OpenAI;
beforeAll(async () => {
  gateway = await buildGateway({
    config: defaultConfig({}).config,
    environment: {},
    home,
    modelsFolder: join(home, 'models'),
    logger: false,
  });
  await gateway.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = gateway.app.server.address() as AddressInfo; // A TCP listener always has one.
  url = `http://127.0.0.1:${port}`;
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
}, 60_000);
afterAll(async () => {
  await gateway.close();
  rmSync(home, { recursive: true, force: true });
});

test('the gateway starts and says what is missing, and how to get it', () => {
  expect(gateway.policy.name).toBe('estimate');
  const notes = gateway.notes.join('\n');
  expect(notes).toMatch(/policy: estimate, because no cards are to be compared/);
  expect(notes).toContain('run `npm run orchestra -- models pull smollm2-135m-instruct`');
  expect(notes).toMatch(/docs: \d+ passages of \d+ files are searchable/);
  expect(notes).toContain('answer-9 (local/smol) is left out: something that it needs is missing');
});

test('it is alive, but not ready while nobody can answer', async () => {
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  const ready = await fetch(`${url}/readyz`);
  expect(ready.status).toBe(503);
  expect(await ready.json()).toMatchObject({ notes: expect.arrayContaining([expect.stringContaining('models pull')]) });
});

test('a request is refused with the reason instead of hanging or crashing', async () => {
  const request = { model: 'orchestra', messages: [{ role: 'user' as const, content: 'Hello!' }] };
  await expect(client.chat.completions.create(request)).rejects.toMatchObject({
    status: 422,
    code: 'limits_unsatisfiable',
    message: expect.stringContaining('none is configured'),
  });
  await expect(decide(client, request)).rejects.toMatchObject({ status: 422 });
});

test('the models of the loop are listed all the same', async () => {
  const ids = (await client.models.list()).data.map(({ id }) => id);
  expect(ids).toEqual(expect.arrayContaining(['orchestra', 'orchestra:cheap', 'orchestra:local']));
});
