import { afterEach, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { type Chunk, chunksOf, contentOf, user } from '../support/http.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import type { OpenAiScript } from '../support/loopback/openai-server.ts';

/** What becomes of an answer that is not in the form which the client asked for. */
let gateway: TestGateway | undefined;
afterEach(async () => gateway?.close());

const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const formatOf = (strict: boolean) => ({ type: 'json_schema', json_schema: { name: 'city', schema, strict } });
const expert = { role: 'answer', upstream: 'loopback', quality: 'good', price: { input: 1, output: 1 } };
const [good, fenced, wrong] = ['{"city": "Oslo"}', '```json\n{"city": "Oslo"}\n```', '{"town": "Oslo"}'];
const says =
  (dear: string, cheap = dear): OpenAiScript =>
  ({ body }) =>
    replies.says(body['model'] === 'dear' ? dear : cheap);

async function ask(openAi: OpenAiScript, fields: object) {
  const slots = Object.fromEntries(
    ['dear', 'cheap'].map((model, index) => [`answer-${index + 1}`, { ...expert, model, json_schema: true }]),
  );
  gateway = await startTestGateway({ openAi, slots });
  const body = JSON.stringify({ model: 'orchestra', messages: user('Where?'), ...fields });
  const response = await fetch(`${gateway.url}/v1/chat/completions`, { method: 'POST', body });
  return { status: response.status, text: await response.text() };
}

describe('J02 a strict schema', () => {
  test.each([
    ['prose around it', `Here it is: ${good}`],
    ['a fence around it', fenced],
    ['another object', wrong],
  ])('is answered by the next slot where the first writes %s', async (_, text) => {
    const reply = JSON.parse((await ask(says(text, good), { response_format: formatOf(true) })).text);
    expect([reply.choices[0].message.content, reply.x_orchestra.warnings]).toEqual([good, []]);
    // Both were paid for.
    expect(reply.x_orchestra.cost.by_model).toHaveLength(2);
  });

  test('that nobody holds to is an error, and no answer', async () => {
    const { status, text } = await ask(says(wrong), { response_format: formatOf(true) });
    expect([status, JSON.parse(text).error.code]).toEqual([502, 'upstream_failed']);
    expect(text).not.toContain('Oslo');
  });

  test('that a stream turns out to break ends it with an error', async () => {
    const chunks = (await ask(says(wrong), { response_format: formatOf(true), stream: true })).text;
    expect(chunks).toMatch(/"error":\{.*response_format.*\n\ndata: \[DONE\]\n\n$/);
    expect(chunks).not.toContain('"finish_reason":"stop"');
  });

  test('J06 of an answer that was cut off is not asked for, nor of a call', async () => {
    const cut = () => ({ ...replies.says('{"city": "Os'), finishReason: 'length' });
    const reply = JSON.parse((await ask(cut, { response_format: formatOf(true) })).text);
    expect(reply.choices[0].finish_reason).toBe('length');
  });
});

/** Of the latest run or relay: as it is listed, and whole. */
async function lastRecord(): Promise<string> {
  const runs = `${gateway?.url}/v1/orchestra/runs`;
  const list = await (await fetch(runs)).text();
  const { run_id: runId } = JSON.parse(list).data[0];
  return list + (await (await fetch(`${runs}/${runId}`)).text());
}

describe('J03 a schema that is refused', () => {
  const key = 'sk-loopback';
  const refusal = `Invalid schema for response_format 'city': \`town-7\` is not permitted (${key}, https://x.example/y).`;
  const refuses = { ...replies.invalid(refusal, 'response_format') };
  const wanted = { response_format: formatOf(true) };

  test('is answered by a slot that takes it', async () => {
    const { status, text } = await ask(({ body }) => (body['model'] === 'dear' ? refuses : replies.says(good)), wanted);
    expect([status, JSON.parse(text).choices[0].message.content]).toEqual([200, good]);
  });

  test.each([true, false])(
    "by everybody is the client's to mend, in the upstream's words (stream: %s)",
    async (stream) => {
      const { status, text } = await ask(() => refuses, { ...wanted, stream });
      const { error } = JSON.parse(text);
      expect([status, error]).toMatchObject([400, { code: 'invalid_json_schema', param: 'response_format' }]);
      expect(error.message).toContain("Invalid schema for response_format 'city': `town-7` is not permitted");
      expect(text).not.toMatch(/sk-loopback|x\.example|127\.0\.0\.1/);
      // The upstream's words may repeat the request, and records hold no texts.
      const record = await lastRecord();
      expect(record).toContain('No slot can hold to');
      expect(record).not.toContain('town-7');
    },
  );

  test('by one while another is out of order is no verdict on it', async () => {
    const { status } = await ask(({ body }) => (body['model'] === 'dear' ? refuses : replies.serverError()), wanted);
    expect(status).toBe(502);
  });

  test('is refused to a relay as well, and its record has none of the words', async () => {
    const { status, text } = await ask(() => refuses, { ...wanted, model: 'loopback/dear' });
    expect([status, JSON.parse(text).error.param]).toEqual([400, 'response_format']);
    const record = await lastRecord();
    expect(record).toContain('refused the schema');
    expect(record).not.toContain('town-7');
  });
});

describe('any other format', () => {
  test.each<[string, object]>([
    ['a schema that is not strict', formatOf(false)],
    ['json_object', { type: 'json_object' }],
  ])('%s is told when it was missed, whole and streamed', async (_, response_format) => {
    const whole = JSON.parse((await ask(says('Oslo, I think.'), { response_format })).text);
    expect(whole.choices[0].message.content).toBe('Oslo, I think.');
    expect(whole.x_orchestra.warnings).toMatchObject([{ code: 'format_missed' }]);
    await gateway?.close();
    const chunks: Chunk[] = chunksOf((await ask(says('Oslo, I think.'), { response_format, stream: true })).text);
    expect(contentOf(chunks)).toBe('Oslo, I think.');
    expect(chunks.at(-1)?.x_orchestra?.['warnings']).toMatchObject([{ code: 'format_missed' }]);
  });

  test('an answer that meets it is not spoken of', async () => {
    const { text } = await ask(says(good), { response_format: { type: 'json_object' } });
    expect(JSON.parse(text).x_orchestra.warnings).toEqual([]);
  });
});
