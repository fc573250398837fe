import type OpenAI from 'openai';
import { APIError } from 'openai';
import { afterEach, describe, expect, test } from 'vitest';
import { impatience, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { type OpenAiReply, replies } from '../support/loopback/openai-replies.ts';
import { recordOf, reportOf } from './report.ts';

/** Five ways in which an upstream fails, as an unmodified client meets them. */
let gateway: TestGateway | undefined;
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
});

interface Failing {
  readonly name: string;
  readonly reply: OpenAiReply;
  readonly status: number;
  readonly code: string;
}

const failing: readonly Failing[] = [
  {
    name: 'a rate limit with Retry-After',
    reply: replies.rateLimited({ 'retry-after': '7' }),
    status: 429,
    code: 'rate_limit_exceeded',
  },
  { name: 'a server error', reply: replies.serverError(), status: 502, code: 'upstream_failed' },
  { name: 'silence', reply: replies.silence, status: 502, code: 'upstream_failed' },
  {
    name: 'a cut stream',
    reply: { kind: 'completion', text: ['never', ' sent'], cutAfterChunks: 1 },
    status: 502,
    code: 'upstream_failed',
  },
  {
    name: 'a malformed frame',
    reply: { kind: 'raw', writes: ['data: {"choices": [\n\n'], ending: 'end' },
    status: 502,
    code: 'upstream_failed',
  },
];
const modes = [{ stream: false }, { stream: true }] as const;
const cases = failing.flatMap((failure) => modes.map((mode) => ({ ...failure, ...mode })));

const messages = [{ role: 'user' as const, content: 'What is loopback?' }];
const answersOnly = { explain: 'summary', tools: { allow: ['answer'] } };

async function ask(
  client: OpenAI,
  stream: boolean,
  preferences: object = answersOnly,
): Promise<{ text: string; report: ReturnType<typeof reportOf> }> {
  const body = { model: 'orchestra', messages, preferences };
  if (!stream) {
    const answer = await client.chat.completions.create(body);
    return { text: answer.choices[0]?.message.content ?? '', report: reportOf(answer) };
  }
  const chunks = [];
  for await (const chunk of await client.chat.completions.create({ ...body, stream: true })) chunks.push(chunk);
  const text = chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('');
  return { text, report: reportOf(chunks.at(-1) ?? {}) };
}

async function errorOf(action: Promise<unknown>): Promise<APIError> {
  try {
    await action;
  } catch (error) {
    if (error instanceof APIError) return error;
    throw error;
  }
  throw new Error('nothing failed');
}

describe.each(cases)('$name, stream: $stream', ({ reply, status, code, stream }) => {
  test('of the first slot lets the second answer', async () => {
    const openAi = ({ body }: { body: Record<string, unknown> }) =>
      body['model'] === 'dear' ? reply : replies.says('From', ' the cheap one.');
    gateway = await startTestGateway({ openAi, ...(reply === replies.silence && { patience: impatience }) });
    const { text, report } = await ask(gateway.client, stream);
    expect(text).toBe('From the cheap one.');
    expect(report).toMatchObject({ status: 'completed', model: 'loopback/cheap' });
    expect(report.turns.map(({ slot, outcome }) => [slot, outcome.startsWith('failed')])).toEqual([
      ['answer-1', true],
      ['answer-2', false],
    ]);
  });

  test('of every slot is one clear error without host or key', async () => {
    gateway = await startTestGateway({ openAi: () => reply, patience: impatience });
    const error = await errorOf(ask(gateway.client, stream));
    expect([error.status, error.code]).toEqual([status, code]);
    expect(error.message).toMatch(/answer-1: .*answer-2: /);
    expect(JSON.stringify([error.error, error.message])).not.toMatch(/127\.0\.0\.1|localhost|sk-loopback/);
    if (status === 429) expect(error.headers?.get('retry-after')).toBe('7');

    const record = await recordOf(gateway.client, error.headers?.get('x-orchestra-run-id') ?? '');
    expect(record).toMatchObject({ status: 'failed', model: null });
    expect(gateway.ledger.recover()).toBe(0);
  });
});

test.each([
  ['is cut', { cutAfterChunks: 2 }],
  ['falls silent', { hangAfterChunks: 2 }],
  ['turns malformed', { insert: { afterChunks: 2, data: '{"choices": [' } }],
])('a stream that %s after text is one error event, and the record says so', async (_, misbehaviour) => {
  const openAi = () => ({ ...replies.says('half', ' more'), ...misbehaviour });
  gateway = await startTestGateway({ openAi, patience: impatience });
  const stream = gateway.client.chat.completions.create({ model: 'orchestra', messages, stream: true });
  const { data, response } = await stream.withResponse();
  const texts: string[] = [];
  const reading = (async () => {
    for await (const { choices } of data) texts.push(choices[0]?.delta.content ?? '');
  })();
  const error = await errorOf(reading);
  expect(texts.join('')).toBe('half');
  expect(error.message).not.toMatch(/127\.0\.0\.1|sk-loopback/);
  const record = await recordOf(gateway.client, response.headers.get('x-orchestra-run-id') ?? '');
  expect(record).toMatchObject({ status: 'failed', cost: { estimated: true } });
  expect(record.cost.total).toBeGreaterThan(0);
  expect(gateway.ledger.recover()).toBe(0);
});

test('of a stream that is cut before its first token, the record books as many calls as the upstream saw', async () => {
  gateway = await startTestGateway({
    openAi: ({ body }) =>
      body['model'] === 'dear' ? { ...replies.says('never'), cutAfterChunks: 1 } : replies.says('From the cheap one.'),
  });
  const { text, report } = await ask(gateway.client, true);
  expect(text).toBe('From the cheap one.');
  const seen = gateway.openAi.requests.filter(({ body }) => body['model'] === 'dear').length;
  const booked = report.cost.by_model.find(({ model }) => model === 'loopback/dear');
  expect(booked).toMatchObject({ calls: seen, output_tokens: 0, estimated: true });
  expect(booked?.input_tokens).toBeGreaterThan(0);
});

test.each([
  ['an error', { kind: 'error', status: 500 }],
  ['nonsense', { kind: 'raw', body: '<html>' }],
  ['a broken connection', { kind: 'raw', body: '{"results": [', destroy: true }],
] as const)('a search that fails with %s is an observation, and the run answers', async (_, reply) => {
  gateway = await startTestGateway({
    tavily: () => reply,
    script: [{ role: 'search' }, { role: 'answer', slot: 'answer-1' }],
  });
  const { text, report } = await ask(gateway.client, false, { explain: 'summary' });
  expect(text).toBe('Hello from loopback.');
  expect(report.turns[0]?.outcome).toMatch(/^failed: /);
  expect(report.status).toBe('completed');
});
