import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { waitUntil } from '../support/loopback/listener.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { type Report, recordOf } from './report.ts';

/** A client that leaves: everything that works for it stops, and the books are closed. */
let gateway: TestGateway | undefined;
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
});

const messages = [{ role: 'user' as const, content: 'Tell me a long story.' }];
const slowly = () => ({ ...replies.says(...Array<string>(200).fill('word ')), chunkDelayMs: 20 });

/** The record is written when the run has ended, which is a little after its client left. */
async function recordOnceWritten({ client }: TestGateway, runId: string): Promise<Report> {
  for (;;) {
    const record = await recordOf(client, runId).catch(() => undefined);
    if (record) return record;
    await sleep(5);
  }
}

test('in the middle of a stream stops the upstream, and the record says cancelled', async () => {
  gateway = await startTestGateway({ openAi: slowly });
  const { data, response } = await gateway.client.chat.completions
    .create({ model: 'orchestra', messages, stream: true })
    .withResponse();
  for await (const { choices } of data) if (choices[0]?.delta.content) break;
  await gateway.openAi.aborted(1);
  const record = await recordOnceWritten(gateway, response.headers.get('x-orchestra-run-id') ?? '');
  expect(record).toMatchObject({ status: 'cancelled', cost: { estimated: true } });
  expect(record.cost.total).toBeGreaterThan(0);
  expect(gateway.ledger.recover()).toBe(0);
});

test('while the search is silent stops it, and nobody else is asked', async () => {
  gateway = await startTestGateway({
    tavily: () => ({ kind: 'silence' }),
    script: [{ role: 'search' }, { role: 'answer', slot: 'answer-1' }],
  });
  const { tavily, openAi, client } = gateway;
  const leaving = new AbortController();
  const answer = client.chat.completions.create({ model: 'orchestra', messages }, { signal: leaving.signal });
  await waitUntil(() => tavily.requests.length === 1, 'the search');
  leaving.abort();
  await expect(answer).rejects.toThrow('aborted');
  await tavily.aborted(1);
  expect(openAi.requests).toHaveLength(0);
  expect(gateway.ledger.recover()).toBe(0);
});

test('by cancelling its own run ends it the same way, and the client is told', async () => {
  gateway = await startTestGateway({ openAi: slowly });
  const { client } = gateway;
  const { data, response } = await client.chat.completions
    .create({ model: 'orchestra', messages, stream: true })
    .withResponse();
  const runId = response.headers.get('x-orchestra-run-id') ?? '';
  let cancelling: Promise<unknown> | undefined;
  const reading = (async () => {
    for await (const _ of data) cancelling ??= client.post(`/orchestra/runs/${runId}/cancel`);
  })();
  await expect(reading).rejects.toThrow('cancelled');
  expect(await cancelling).toEqual({ run_id: runId, status: 'cancelling' });
  await gateway.openAi.aborted(1);
  const failure = { code: 'cancelled', message: 'The request was cancelled.' };
  expect(await recordOnceWritten(gateway, runId)).toMatchObject({ status: 'cancelled', failure });
  expect(gateway.ledger.recover()).toBe(0);
  await expect(client.post(`/orchestra/runs/${runId}/cancel`)).rejects.toThrow(/There is no run .* at work/);
});
