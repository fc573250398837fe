import { APIError } from 'openai';
import { afterEach, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { costOf, reportOf } from './report.ts';

/* Pictures, files and searches are billed by more than their letters; a limit of money holds all the same. */

let gateway: TestGateway | undefined;
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
});

const windowTokens = 60_000;
const [byRun, byRelay] = ['orchestra', 'loopback/seer'];
const picture = { type: 'image_url', image_url: { url: 'https://x.example/y', detail: 'high' } };
const file = { type: 'file', file: { file_id: 'file-1' } };

/** @param billed input tokens of every call; a token costs a millionth of a dollar. */
async function start(billed: number, ceiling: object) {
  const answer = {
    role: 'answer',
    upstream: 'loopback',
    quality: 'good',
    max_output: 100,
    input: ['text', 'image', 'file'],
    tools: true,
  };
  const price = { input: 1, output: 1 };
  gateway = await startTestGateway({
    openAi: () => ({ ...replies.says('Seen.'), usage: { prompt_tokens: billed, completion_tokens: 1 } }),
    slots: {
      'answer-1': { ...answer, model: 'seer', price, context: windowTokens },
      'answer-2': { ...answer, model: 'boundless', price },
      'answer-3': { ...answer, model: 'unpriced', price: 'unknown' },
    },
    config: { ceiling },
  });
  const { client, openAi } = gateway;
  const send = (model: string, fields: object = {}, ...parts: object[]) => {
    const body = { model, messages: [{ role: 'user', content: [{ type: 'text', text: 'What is this?' }, ...parts] }] };
    return client.chat.completions.create({ ...body, max_tokens: 50, ...fields } as never);
  };
  const refusal = async (...request: Parameters<typeof send>) => {
    const asked = openAi.requests.length;
    const error: unknown = await send(...request).catch((thrown: unknown) => thrown);
    expect(openAi.requests).toHaveLength(asked);
    if (!(error instanceof APIError)) throw new Error('nothing was refused');
    return error;
  };
  return { openAi, send, refusal };
}

test.each([byRun, byRelay])('a day of dear pictures costs no more than a day may (%s)', async (model) => {
  const { openAi, send, refusal } = await start(48_169 + 20, { max_cost_usd_per_day: 0.2 });
  let spent = 0;
  for (const _ of [1, 2, 3, 4]) spent += costOf(await send(model, {}, picture));
  expect(await refusal(model, {}, picture)).toMatchObject({ status: 402 });
  expect(openAi.requests).toHaveLength(4);
  expect(spent).toBeLessThanOrEqual(0.2);
});

test.each([byRun, byRelay])('files asked about all at once stay within the day together (%s)', async (model) => {
  const { openAi, send } = await start(windowTokens, { max_cost_usd_per_day: 0.2 });
  const asked = await Promise.allSettled(Array.from({ length: 8 }, () => send(model, {}, file, picture)));
  const spent = asked.flatMap((one) => (one.status === 'fulfilled' ? costOf(one.value) : []));
  expect(spent.length).toBe(openAi.requests.length);
  expect(spent.length).toBeGreaterThan(0);
  expect(spent.reduce((sum, cost) => sum + cost, 0)).toBeLessThanOrEqual(0.2);
});

test.each([byRun, byRelay])('a file is held at the window of its reader (%s)', async (model) => {
  const { send, refusal } = await start(windowTokens, { max_cost_usd: 0.07 });
  expect(costOf(await send(model, {}, file))).toBeLessThanOrEqual(0.07);
  expect(await refusal(model, { preferences: { max_cost_usd: 0.05 } }, file)).toMatchObject({
    status: 422,
    param: 'preferences.max_cost_usd',
  });
});

test('a large picture inside the request is held as a picture and not as text', async () => {
  const { send } = await start(1_500, { max_cost_usd: 0.06 });
  const url = `data:image/png;base64,${'A'.repeat(1_000_000)}`;
  for (const model of [byRun, byRelay]) {
    expect(costOf(await send(model, {}, { type: 'image_url', image_url: { url } }))).toBeCloseTo(0.001501, 9);
  }
});

test.each([byRun, byRelay])('a picture inside a picture takes nothing from what is held (%s)', async (model) => {
  const { refusal } = await start(1_500, { max_cost_usd: 0.02 });
  const url = `data:image/png;base64,${'A'.repeat(200_000)}`;
  const nested = { type: 'image_url', image_url: { type: 'image_url', url } };
  expect(await refusal(model, {}, nested)).toMatchObject({ status: 422, code: 'limits_unsatisfiable', param: null });
});

test('what tools of its own add to a bill is not held against an upstream', async () => {
  const { openAi, send } = await start(50_000, {});
  const fields = { tools: [{ type: 'web_search' }], preferences: { tools: { allow: ['answer-1'] } } };
  for (const _ of [1, 2]) expect(costOf(await send(byRun, fields))).toBeCloseTo(0.050001, 9);
  expect(openAi.requests).toHaveLength(2);
});

test('a reader whose window nobody knows gets no file where money is limited, and the trace says so', async () => {
  const { send, refusal } = await start(500, { max_cost_usd: 0.1 });
  const removed = { slot: 'answer-2', reason: expect.stringContaining('`context` would say') };
  expect(reportOf(await send(byRun, {}, file)).limits_applied).toContainEqual(
    expect.objectContaining({
      limit: 'max_cost_usd',
      removed: [removed, { slot: 'answer-3', reason: 'its price is unknown' }],
    }),
  );
  const error = await refusal('loopback/boundless', {}, file);
  expect(error).toMatchObject({ status: 422, param: 'messages', message: expect.stringContaining('`context`') });
});

test.each<[string, object, object[]]>([
  ['web_search_options', { web_search_options: {} }, []],
  ['plugins', { plugins: [{ id: 'web' }] }, []],
  ['tools', { tools: [{ type: 'openrouter:web_search' }] }, []],
  ['modalities', { modalities: ['text', 'audio'], audio: { voice: 'a', format: 'wav' } }, []],
  ['messages', {}, [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }]],
])('`%s` that no price covers is refused where money is limited, and else passes', async (param, fields, parts) => {
  const limited = await start(500, { max_cost_usd_per_day: 1 });
  const error = await limited.refusal(byRelay, fields, ...parts);
  expect(error).toMatchObject({ status: 422, param, code: 'limits_unsatisfiable' });
  expect(error.message).toContain('a key whose money is not limited');
  await gateway?.close();
  const free = await start(500, {});
  await free.send(byRelay, fields, ...parts);
  expect(free.openAi.requests).toHaveLength(1);
});

test('tools that an upstream runs are refused to runs as well', async () => {
  const { refusal } = await start(500, { max_cost_usd: 0.1 });
  const error = await refusal(byRun, { tools: [{ type: 'web_search' }] });
  expect(error).toMatchObject({ status: 422, message: expect.stringContaining('`tools` may cost more') });
});

test.each([
  ['max_cost_usd', 'preferences.max_cost_usd'],
  ['max_cost_usd_per_day', null],
])('under %s nobody of unknown price is asked', async (limit, param) => {
  const { refusal } = await start(500, { [limit]: 1 });
  expect(await refusal('loopback/unpriced')).toMatchObject({ status: 422, param });
  expect(await refusal(byRun, { preferences: { tools: { allow: ['answer-3'] } } })).toMatchObject({ status: 422 });
});

test('a dearer service tier is a wish to this gateway, and none to the upstream', async () => {
  const { openAi, send } = await start(500, { max_cost_usd: 1 });
  await send(byRelay, { service_tier: 'priority' });
  expect(openAi.requests[0]?.body).not.toHaveProperty('service_tier');
});
