import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { openWorkplace, type Workplace } from './command-line.ts';

const patienceMs = 60_000;
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function gatewayOn(config: object = {}): Promise<TestGateway> {
  const gateway = await startTestGateway({ config: { trace: { texts: 'on' }, ...config } });
  closing.push(gateway.close);
  return gateway;
}

function workplace(): Workplace {
  const place = openWorkplace();
  closing.push(place.close);
  return place;
}

/** Asks, judges, and returns the id of the run. */
async function judged({ url }: TestGateway, content: string, preferences: object, score?: number): Promise<string> {
  const post = async (path: string, body: object) => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer secret' },
      body: JSON.stringify(body),
    });
    return (await response.json()) as { x_orchestra: { run_id: string } }; // What the gateway answers.
  };
  const messages = [{ role: 'user', content }];
  const { x_orchestra } = await post('/v1/chat/completions', { model: 'orchestra', messages, preferences });
  if (score !== undefined) await post(`/v1/orchestra/runs/${x_orchestra.run_id}/feedback`, { score });
  return x_orchestra.run_id;
}

const linesOf = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

test('judged runs are written with the card of who answered, private ones without any text', {
  timeout: patienceMs,
}, async () => {
  const gateway = await gatewayOn();
  const open = await judged(gateway, 'How far is the Moon?', {}, 0.25);
  const hidden = await judged(gateway, 'My secret illness', { privacy: 'zdr' }, 1);
  await judged(gateway, 'Nobody said how good this was', {});
  const place = workplace();
  const running = place.start(['runs', 'export', '--url', `${gateway.url}/v1`, '--out', 'runs.jsonl']);
  expect([await running.ended, running.errors()]).toEqual([0, '']);
  const text = readFileSync(join(place.folder, 'runs.jsonl'), 'utf8');
  const lines = linesOf(text);
  expect(lines.map(({ run_id }) => run_id).sort()).toEqual([open, hidden].sort());
  expect(lines.find(({ run_id }) => run_id === open)).toMatchObject({
    privacy: 'any',
    feedback: { score: 0.25 },
    texts: { messages: [{ role: 'user', content: 'How far is the Moon?' }], answer: 'Hello from loopback.' },
    card: { slot: 'answer-1', quality: 'strongest general model', skills: {}, privacy: 'self_hosted' },
  });
  expect(lines.find(({ run_id }) => run_id === hidden)).not.toHaveProperty('texts');
  expect(text).not.toContain('illness');
});

test('how many were written is said, and a file that cannot be written is named', { timeout: patienceMs }, async () => {
  const gateway = await gatewayOn();
  await judged(gateway, 'How far is the Moon?', {}, 1);
  await judged(gateway, 'My secret illness', { privacy: 'zdr' }, 1);
  const place = workplace();
  const words = ['runs', 'export', '--url', gateway.url, '--out'];
  writeFileSync(join(place.folder, 'runs.jsonl'), 'of before', { mode: 0o644 });
  const right = place.start([...words, 'runs.jsonl']);
  expect([await right.ended, right.output()]).toEqual([0, 'runs.jsonl: 2 runs, 1 of them with texts\n']);
  expect(statSync(join(place.folder, 'runs.jsonl')).mode & 0o777).toBe(0o600);
  const wrong = place.start([...words, 'nowhere/runs.jsonl']);
  expect(await wrong.ended).toBe(1);
  expect(wrong.errors()).toBe('runs export: --out nowhere/runs.jsonl cannot be written (ENOENT)\n');
});

test('more runs than a page are all written, and --since leaves the older out', { timeout: patienceMs }, async () => {
  const gateway = await gatewayOn();
  for (let n = 0; n < 102; n++) await judged(gateway, `Question ${n}`, {});
  const place = workplace();
  const all = place.start(['runs', 'export', '--url', gateway.url, '--all']);
  expect(await all.ended).toBe(0);
  expect(new Set(linesOf(all.output()).map(({ run_id }) => run_id)).size).toBe(102);
  const none = place.start(['runs', 'export', '--url', gateway.url, '--all', '--since', '2199-01-01']);
  expect([await none.ended, none.output()]).toEqual([0, '']);
});

test('a key sees its own runs, and a wrong one gets a sentence without it', { timeout: patienceMs }, async () => {
  const server = { auth: 'keys', keys: [{ name: 'team', env: 'TEAM_KEY' }] };
  const gateway = await startTestGateway({ config: { server }, environment: { TEAM_KEY: 'secret' } });
  closing.push(gateway.close);
  await judged(gateway, 'Hello', {}, 1);
  const place = workplace();
  const words = ['runs', 'export', '--url', gateway.url];
  const right = place.start(words, { ORCHESTRA_API_KEY: 'secret' });
  expect([await right.ended, linesOf(right.output()).length]).toEqual([0, 1]);
  const wrong = place.start(words, { ORCHESTRA_API_KEY: 'sk-wrong' });
  expect(await wrong.ended).toBe(1);
  expect(wrong.errors()).toMatch(/wants a key: set ORCHESTRA_API_KEY/);
  expect(wrong.errors()).not.toContain('sk-wrong');
});

test('a gateway that is gone, redirects or talks nonsense is told in a sentence', { timeout: patienceMs }, async () => {
  const server = createServer(({ url }, response) => {
    if (url?.startsWith('/away')) response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end();
    else response.end('<html>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => server.close());
  const { port } = server.address() as AddressInfo; // A TCP listener always has one.
  const place = workplace();
  for (const [url, reason] of [
    ['http://127.0.0.1:1', /does not answer/],
    [`http://127.0.0.1:${port}/away`, /does not answer/],
    [`http://127.0.0.1:${port}`, /wrote no JSON/],
    ['nowhere', /It is an address/],
  ] as const) {
    const running = place.start(['runs', 'export', '--url', url]);
    expect(await running.ended).toBe(1);
    expect(running.errors()).toMatch(reason);
  }
});
