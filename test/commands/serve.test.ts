// biome-ignore-all lint/suspicious/noTemplateCurlyInString: this is how configuration names variables

import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import OpenAI from 'openai';
import { afterEach, expect, test } from 'vitest';
import { replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';
import { openWorkplace, type Workplace } from './command-line.ts';

/** `orchestra serve` as a real process. */
const patienceMs = 60_000;
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

function workplace(): Workplace {
  const place = openWorkplace();
  closing.push(place.close);
  return place;
}
async function upstream(...words: string[]): Promise<OpenAiServer> {
  const server = await startOpenAiServer(() => ({ ...replies.says(...words), chunkDelayMs: 20 }));
  closing.push(server.close);
  return server;
}

const configFor = ({ url }: OpenAiServer) => ({
  upstreams: { loopback: { kind: 'openai', base_url: url, api_key: '${UPSTREAM_KEY}' } },
  slots: {
    'answer-1': { role: 'answer', upstream: 'loopback', model: 'm', quality: 'good', price: { input: 1, output: 2 } },
  },
  ceiling: { max_cost_usd: 0.5 },
});
const environment = { PORT: '0', UPSTREAM_KEY: 'sk-loopback' };
const ready = /Orchestra is ready at (http:\/\/127\.0\.0\.1:\d+)/;
const clientOf = (url: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'user' as const, content: 'Tell me something.' }];

test('greets with what is there and a line to try, and that line works', { timeout: patienceMs }, async () => {
  const place = workplace();
  place.write('orchestra.yaml', configFor(await upstream('Hello there.')));
  const serving = place.start(['serve'], environment);
  const [, url = ''] = await serving.printed(ready);
  const [, curl = ''] = await serving.printed(/curl (\S+) -H/);
  const greeting = serving.output();
  expect(greeting).toMatch(/answer +answer-1 \(loopback\/m\)/);
  expect(greeting).toMatch(/search +none/);
  expect(greeting).toContain('policy: estimate');
  expect(greeting).toContain('spending limit: 0.5 USD a request (set by ceiling in orchestra.yaml)');
  expect(greeting).not.toContain('sk-loopback');

  const [, body = ''] = await serving.printed(/-d '(.*)'/);
  const reply = await fetch(curl, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  expect(curl.startsWith(url)).toBe(true);
  expect(await reply.json()).toMatchObject({ choices: [{ message: { content: 'Hello there.' } }] });
  serving.process.kill('SIGINT');
  expect(await serving.ended).toBe(0);
});

/** Under the 30 s after which whatever still runs would be stopped. */
const drainsByItselfMs = 25_000;
test('finishes a running stream when it is told to stop, and ends well', { timeout: drainsByItselfMs }, async () => {
  const place = workplace();
  const words = Array.from({ length: 60 }, (_, index) => `word${index} `);
  const path = place.write('some.yaml', configFor(await upstream(...words)));
  const serving = place.start(['--config', path], environment);
  const [, url = ''] = await serving.printed(ready);
  const stream = await clientOf(url).chat.completions.create({ model: 'orchestra', messages, stream: true });
  let text = '';
  let reason: string | null | undefined;
  for await (const { choices } of stream) {
    if (reason === undefined) serving.process.kill('SIGTERM');
    reason = choices[0]?.finish_reason ?? null;
    text += choices[0]?.delta.content ?? '';
  }
  expect([text, reason]).toEqual([words.join(''), 'stop']);
  expect(await serving.ended).toBe(0);
  expect(serving.output()).toContain('Stopping: running answers are finished first.');
  expect(serving.errors()).toBe('');
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
});

test('a second signal does not wait for the stream', { timeout: patienceMs }, async () => {
  const place = workplace();
  const path = place.write('some.yaml', configFor(await upstream(...Array<string>(2000).fill('word '))));
  const serving = place.start(['--config', path], environment);
  const [, url = ''] = await serving.printed(ready);
  const stream = await clientOf(url).chat.completions.create({ model: 'orchestra', messages, stream: true });
  const reading = (async () => {
    for await (const _ of stream) serving.process.kill('SIGTERM');
  })();
  await expect(reading).rejects.toThrow();
  expect(await serving.ended).toBeNull();
  expect(serving.process.signalCode).toBe('SIGTERM');
});

test('a port that is taken is one clear line', { timeout: patienceMs }, async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  closing.push(() => other.close());
  const { port } = other.address() as AddressInfo; // A TCP listener always has one.
  const place = workplace();
  place.write('orchestra.yaml', configFor(await upstream('never')));
  const serving = place.start(['serve'], { ...environment, PORT: String(port) });
  expect(await serving.ended).toBe(1);
  expect(serving.errors()).toBe(`port ${port} is taken: stop what uses it, or set PORT to another\n`);
});

test('a broken configuration is told in full, without a stack', { timeout: patienceMs }, async () => {
  const place = workplace();
  place.write('orchestra.yaml', { servre: {}, limits: { runs: 'many' }, relay: 'all' });
  const serving = place.start(['serve'], { PORT: '0' });
  expect(await serving.ended).toBe(1);
  expect(serving.errors().trimEnd().split('\n').sort()).toEqual([
    'limits.runs: Invalid input: expected number, received string',
    'relay: Invalid input: expected array, received string',
    'servre: unknown key: did you mean `server`?',
  ]);
  expect(serving.output()).toBe('');
});

test('a database of a home that cannot be written is one line too', { timeout: patienceMs }, async () => {
  const place = workplace();
  place.write('orchestra.yaml', configFor(await upstream('never')));
  const home = place.write('a-file', 'not a folder');
  const serving = place.start(['serve'], { ...environment, ORCHESTRA_HOME: home });
  expect(await serving.ended).toBe(1);
  expect(serving.errors()).toMatch(/^ORCHESTRA_HOME: .*\n$/);
});
