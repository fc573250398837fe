import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';

let gateway: TestGateway | undefined;
afterEach(() => gateway?.close());

const told = z.object({ x_orchestra: z.object({ run_id: z.string(), model: z.string() }) });

async function ask({ client }: TestGateway) {
  const answer = await client.chat.completions.create({
    model: 'orchestra:best',
    messages: [{ role: 'user', content: 'Tell me a story about a lighthouse.' }],
  });
  return told.parse(answer).x_orchestra;
}

async function judge({ url }: TestGateway, runId: string, score: number): Promise<void> {
  const response = await fetch(`${url}/v1/orchestra/runs/${runId}/feedback`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ score }),
  });
  expect(response.status).toBe(200);
}

test('feedback moves what estimate believes of a slot, and a second judgement of a run replaces the first', async () => {
  const slot = {
    role: 'answer',
    upstream: 'loopback',
    quality: 'good',
    price: { input: 1, output: 1 },
    latency_ms: 100,
  };
  gateway = await startTestGateway({
    decidedBy: 'configuration',
    slots: { 'answer-1': { ...slot, model: 'one' }, 'answer-2': { ...slot, model: 'two' } },
  });
  const first = await ask(gateway);
  for (const score of [1, 0]) await judge(gateway, first.run_id, score);
  const second = await ask(gateway);
  expect(second.model).not.toBe(first.model);
  // Judged right in the end, the first one is the better again.
  await judge(gateway, first.run_id, 1);
  expect((await ask(gateway)).model).toBe(first.model);
});
