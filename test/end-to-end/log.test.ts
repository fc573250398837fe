import { Writable } from 'node:stream';
import { afterEach, expect, test } from 'vitest';
import { noUsage } from '../../src/cost/usage.ts';
import type { Policy } from '../../src/router/policy.ts';
import { impatience, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { type OpenAiReply, replies } from '../support/loopback/openai-replies.ts';

/** The most talkative log there is must not hold what clients said, what models wrote, or how to get in. */
let gateway: TestGateway | undefined;
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
});

const question = 'QUESTION-4711 about my illness';
const words = 'ANSWER-0815 in confidence';
const page = 'PAGE-1234 found';
const secrets = ['sk-loopback', 'tvly-loopback', 'sk-client-secret'];

function capture() {
  const lines: string[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _, done) {
      lines.push(chunk.toString());
      done();
    },
  });
  return { lines, logger: { level: 'trace', stream } };
}

const misbehaving: readonly [string, OpenAiReply][] = [
  ['answers', replies.says(words)],
  ['refuses our key and quotes it', replies.badKey()],
  ['fails', replies.serverError()],
  ['refuses and quotes the question', replies.invalid(`Invalid content: ${question}`, question)],
  ['breaks off', { ...replies.says(words, words), cutAfterChunks: 2 }],
  ['sends nonsense', { kind: 'raw', writes: [`data: {"choices": ["${words}"\n\n`], ending: 'end' }],
  ['hangs', replies.silence],
];

test.each(misbehaving)('an upstream that %s leaves no text and no secret in the log', async (_, reply) => {
  const { lines, logger } = capture();
  gateway = await startTestGateway({
    logger,
    environment: { CLIENT_KEY: 'sk-client-secret' },
    config: { server: { auth: 'keys', keys: [{ name: 'client', env: 'CLIENT_KEY' }] } },
    script: [{ role: 'search' }, { role: 'answer', slot: 'answer-1' }],
    openAi: () => reply,
    patience: impatience,
    tavily: () => ({ kind: 'results', results: [{ title: page, url: 'https://example.org/page', content: page }] }),
  });
  const client = gateway.client.withOptions({ apiKey: 'sk-client-secret' });
  const messages = [{ role: 'user' as const, content: question }];
  for (const model of ['orchestra', 'loopback/dear']) {
    await client.chat.completions.create({ model, messages }).catch(() => undefined);
    const stream = await client.chat.completions.create({ model, messages, stream: true }).catch(() => undefined);
    try {
      for await (const _chunk of stream ?? []);
    } catch {
      // A stream that breaks off is part of what is tested.
    }
  }
  await fetch(`${gateway.url}/v1/models`, { headers: { authorization: 'Bearer sk-wrong-secret' } });
  expect(lines.length).toBeGreaterThan(0);
  const log = lines.join('');
  for (const hidden of [question, words, page, ...secrets, 'sk-wrong-secret']) expect(log).not.toContain(hidden);
  expect(log).not.toMatch(new RegExp(`${gateway.openAi.url}|authorization`, 'i'));
});

/** A policy with a bug: in deciding, or in what it hands over. */
const buggy = (where: 'deciding' | 'opinion'): Policy => ({
  name: 'buggy',
  backend: 'scripted',
  contract: 'slots-1',
  bound: noUsage,
  decide: async ({ candidates }) => {
    if (where === 'deciding') throw new TypeError('a bug of ours');
    return {
      probabilities: candidates.map(() => 1 / candidates.length),
      weighted: true,
      usage: noUsage,
      get pRight(): never {
        throw new TypeError('a bug of ours');
      },
    };
  },
});

test.each([
  ['deciding', 503, 'The policy cannot decide now'],
  ['opinion', 500, 'Something went wrong inside the gateway'],
] as const)('a bug in %s is in the log with its run, and the client sees %i', async (where, status, sentence) => {
  const { lines, logger } = capture();
  gateway = await startTestGateway({ logger, policy: buggy(where) });
  const messages = [{ role: 'user' as const, content: question }];
  const asking = gateway.client.chat.completions.create({ model: 'orchestra', messages });
  const error: unknown = await asking.catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ status, message: expect.stringContaining(sentence) });
  expect(JSON.stringify(error)).not.toContain('a bug of ours');
  const log = lines.join('');
  expect(log).toContain('a bug of ours');
  expect(log).toMatch(/"runId":"run_/);
  expect(log).not.toContain(question);
});
