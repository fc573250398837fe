import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { APIError } from 'openai';
import { afterEach, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../../support/gateway.ts';
import { waitUntil } from '../../support/loopback/listener.ts';
import { type CompletionReply, type OpenAiReply, replies } from '../../support/loopback/openai-replies.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from '../../support/loopback/openai-server.ts';

const open: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function serverThat(script: OpenAiScript): Promise<OpenAiServer> {
  const server = await startOpenAiServer(script);
  open.push(server.close);
  return server;
}

interface Decided extends TestGateway {
  readonly experts: OpenAiServer;
}

/**
 * A gateway whose policy is a model at this address: class no_training, region us, 1 USD a million tokens in and 2 out.
 * Two answer slots of class self_hosted in region eu say who they are; own documents are self_hosted too.
 */
async function gatewayDecidedAt(
  mindUrl: string,
  {
    policy = {},
    model = 'router-8b',
    slots = {},
    ceiling = {},
    expert = ({ body }) => replies.says(`I am ${String(body['model'])}.`),
  }: { policy?: object; model?: string; slots?: object; ceiling?: object; expert?: OpenAiScript } = {},
): Promise<Decided> {
  const experts = await serverThat(expert);
  const folder = mkdtempSync(join(tmpdir(), 'orchestra-remote-'));
  open.push(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'codes.md'), '# Codes\n\nThe wombat code of the zoo is marked-4711.\n');
  const answer = { role: 'answer', upstream: 'experts', quality: 'good', max_output: 500 };
  const gateway = await startTestGateway({
    decidedBy: 'configuration',
    patience: {
      firstTokenTimeoutMs: 2_000,
      betweenTokensTimeoutMs: 2_000,
      answerTimeoutMs: 2_000,
      retryAttempts: 1,
      retryBaseDelayMs: 1,
    },
    config: {
      policy: {
        backend: 'remote',
        upstream: 'mind',
        model,
        thought: 300,
        context: 8192,
        price: { input: 1, output: 2 },
        ...policy,
      },
      upstreams: {
        experts: { kind: 'openai', base_url: experts.url, privacy: 'self_hosted', regions: ['eu'] },
        mind: { kind: 'openai', base_url: mindUrl, api_key: 'sk-mind', privacy: 'no_training', regions: ['us'] },
      },
      tools: { own: { kind: 'local_search', folders: [folder], privacy: 'self_hosted' } },
      slots: {
        'search-1': { role: 'search', tools: ['own'], quality: 'own documents' },
        'answer-1': { ...answer, model: 'dear', price: { input: 10, output: 40 } },
        'answer-2': { ...answer, model: 'cheap', price: { input: 1, output: 4 } },
        ...slots,
      },
      ceiling,
      relay: [],
    },
  });
  open.push(gateway.close);
  return { ...gateway, experts };
}

const usage = { prompt_tokens: 1000, completion_tokens: 50 };
const calls = (name: string, model: string): CompletionReply => ({
  ...replies.calls({ id: 'c1', name, arguments: JSON.stringify({ model }) }),
  usage,
});
const writes = (...text: string[]): OpenAiReply => ({ ...replies.says(...text), usage });
/** What one such decision costs. */
const decisionUsd = 0.0011;

interface Report {
  readonly model: string;
  readonly warnings: readonly { readonly code: string; readonly message: string }[];
  readonly turns: readonly { readonly slot: string; readonly decided_by: string }[];
  readonly cost: { readonly total: number };
}

async function ask({ client }: TestGateway, preferences: object = {}) {
  const messages = [{ role: 'user' as const, content: 'What is the wombat code of the zoo?' }];
  const body = { model: 'orchestra', messages, preferences: { explain: 'full', ...preferences } };
  const reply = await client.chat.completions.create(body);
  // Fields beside OpenAI's, which its types do not know.
  const { x_orchestra: report, usage: bill } = reply as unknown as {
    x_orchestra: Report;
    usage: { cost: number; cost_details: { orchestrator: number } };
  };
  return {
    text: reply.choices[0]?.message.content,
    warnings: report.warnings.map(({ code, message }) => `${code}: ${message}`),
    slots: report.turns.map(({ slot }) => slot),
    decidedBy: report.turns.map(({ decided_by }) => decided_by),
    decisionsUsd: bill.cost_details.orchestrator,
    usd: bill.cost,
  };
}

async function refusal(action: Promise<unknown>): Promise<APIError> {
  try {
    await action;
  } catch (error) {
    if (error instanceof APIError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('a decision on a server', () => {
  test('is a function call that names a slot, billed at the price of the policy', async () => {
    const mind = await serverThat(() => calls('answer', 'answer-2'));
    const told = await ask(await gatewayDecidedAt(mind.url));
    expect(told).toMatchObject({ text: 'I am cheap.', slots: ['answer-2'], decidedBy: ['mind/router-8b'] });
    expect(told.decisionsUsd).toBe(decisionUsd);
    expect(told.warnings).toEqual([]);
    expect(mind.requests).toHaveLength(1);
    const { messages, tools, ...body } = mind.requests[0]?.body ?? {};
    expect(body).toMatchObject({ model: 'router-8b', temperature: 0, max_tokens: 500, stream: true });
    expect(JSON.stringify(messages)).toContain('What is the wombat code of the zoo?');
    expect(JSON.stringify(tools)).toContain('answer-1');
    expect(mind.requests[0]?.headers.authorization).toBe('Bearer sk-mind');
  });

  test('may stand in the text, behind a thought', async () => {
    const call = '<tool_call>\n{"name": "answer", "arguments": {"model": "answer-1"}}\n</tool_call>';
    const mind = await serverThat(() => writes('<think>\nHard.\n</think>\n\n', call));
    expect(await ask(await gatewayDecidedAt(mind.url))).toMatchObject({ text: 'I am dear.', slots: ['answer-1'] });
  });

  test.each<[string, OpenAiReply]>([
    ['words', writes('Let us answer.')],
    ['nothing', { kind: 'completion', usage }],
    ['an unknown slot', calls('answer', 'answer-7')],
    ['an unknown function', calls('ponder', 'answer-1')],
    ['a slot of another role', calls('search', 'answer-1')],
    ['half a call', { ...replies.calls({ id: 'c', name: 'answer', arguments: '{"model":"answer-1' }), usage }],
  ])('that is %s is asked for once more, otherwise, and both are billed', async (_, first) => {
    const mind = await serverThat(({ attempt }) => (attempt === 1 ? first : calls('answer', 'answer-2')));
    const told = await ask(await gatewayDecidedAt(mind.url));
    expect(told).toMatchObject({ slots: ['answer-2'], decidedBy: ['mind/router-8b'], decisionsUsd: 2 * decisionUsd });
    expect(mind.requests.map(({ body }) => body['temperature'])).toEqual([0, 0.7]);
  });

  test('is made from less text where the server finds the prompt too long', async () => {
    const mind = await serverThat(({ attempt }) =>
      attempt === 1 ? replies.contextTooLong : calls('answer', 'answer-2'),
    );
    expect(await ask(await gatewayDecidedAt(mind.url))).toMatchObject({ decisionsUsd: decisionUsd, warnings: [] });
    expect(mind.requests).toHaveLength(2);
  });
});

describe('a model that was trained on slots-2', () => {
  test('has an attempt made and delivers it, for one answer’s price', async () => {
    const mind = await serverThat(({ attempt }) =>
      attempt === 1 ? calls('attempt', 'answer-2') : calls('answer', 'attempt-1'),
    );
    const gateway = await gatewayDecidedAt(mind.url, { policy: { contract: 'slots-2' } });
    const told = await ask(gateway);
    expect(told).toMatchObject({ text: 'I am cheap.', decidedBy: ['mind/router-8b', 'mind/router-8b'], warnings: [] });
    expect(told.slots).toEqual(['answer-2', 'attempt-1']);
    expect(gateway.experts.requests).toHaveLength(1);
    const [first, second] = mind.requests.map(({ body }) => JSON.stringify([body['messages'], body['tools']]));
    expect(first).toContain('"name":"attempt"');
    expect(second).toContain('I am cheap.');
    expect(second).toContain('attempt-1');
  });

  test('is not what an upstream serves unless it is said', async () => {
    const mind = await serverThat(({ attempt }) =>
      attempt === 1 ? calls('attempt', 'answer-2') : calls('answer', 'answer-2'),
    );
    expect(await ask(await gatewayDecidedAt(mind.url))).toMatchObject({ slots: ['answer-2'] });
    expect(JSON.stringify(mind.requests[0]?.body['tools'])).not.toContain('attempt');
  });
});

describe('a decision that cannot be had', () => {
  test('is not asked in a dry run, which spends nothing', async () => {
    const mind = await serverThat(() => calls('answer', 'answer-2'));
    const dryRun = async (policy: object) => {
      const { url } = await gatewayDecidedAt(mind.url, { policy });
      return fetch(`${url}/v1/orchestra/decide`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'orchestra', messages: [{ role: 'user', content: 'Hi' }] }),
      });
    };
    expect(await (await dryRun({})).json()).toMatchObject({
      decided_by: 'estimate',
      warnings: [{ code: 'policy_skipped' }],
    });
    expect((await dryRun({ fallback: 'none' })).status).toBe(503);
    expect(mind.requests).toHaveLength(0);
  });

  test('is billed where it was worked on, and the fallback decides and says so', async () => {
    const mind = await serverThat(() => writes('I would rather not.'));
    const told = await ask(await gatewayDecidedAt(mind.url));
    expect(told).toMatchObject({ decidedBy: ['estimate'], decisionsUsd: 2 * decisionUsd });
    expect(told.warnings).toEqual([
      'policy_fallback: The policy mind/router-8b could not decide (what it wrote is no decision: no_call); estimate did.',
    ]);
    expect(mind.requests).toHaveLength(2);
  });

  test.each<[string, OpenAiReply]>([
    ['fails', replies.serverError()],
    ['refuses our key', replies.badKey('sk-mind')],
    ['finds every prompt too long', replies.contextTooLong],
  ])('costs nothing where the server %s', async (_, reply) => {
    const mind = await serverThat(() => reply);
    const told = await ask(await gatewayDecidedAt(mind.url));
    expect(told).toMatchObject({ decidedBy: ['estimate'], decisionsUsd: 0 });
    expect(told.warnings.join()).toMatch(/^policy_fallback: /);
    expect(told.warnings.join()).not.toMatch(/sk-mind|127\.0\.0\.1/);
  });

  test('is an error where no fallback is allowed', async () => {
    const mind = await serverThat(() => replies.serverError());
    const gateway = await gatewayDecidedAt(mind.url, { policy: { fallback: 'none' } });
    expect(await refusal(ask(gateway))).toMatchObject({ status: 503, code: 'policy_unavailable' });
  });
});

describe('limits', () => {
  test.each<[string, object, RegExp]>([
    ['a class above its own', { privacy: 'self_hosted' }, /its class is no_training, and this run needs self_hosted/],
    ['regions that it is not in', { regions: ['eu'] }, /it may use us/],
    ['other upstreams alone', { tools: { allow: ['upstream:ex*'] } }, /its upstream is not in the allow list/],
  ])('keep a request with %s from the policy', async (_, preferences, reason) => {
    const mind = await serverThat(() => calls('answer', 'answer-1'));
    const told = await ask(await gatewayDecidedAt(mind.url), preferences);
    expect(mind.requests).toHaveLength(0);
    expect(told).toMatchObject({ decidedBy: ['estimate'], decisionsUsd: 0 });
    expect(told.warnings).toEqual([expect.stringMatching(/^policy_skipped: The policy mind\/router-8b was not asked/)]);
    expect(told.warnings[0]).toMatch(reason);
  });

  test('that deny its upstream keep a request from the policy as from the slots there', async () => {
    const mind = await serverThat(() => calls('answer', 'answer-1'));
    const price = { input: 1, output: 1 };
    const slots = { 'answer-3': { role: 'answer', upstream: 'mind', model: 'inner', quality: 'good', price } };
    const gateway = await gatewayDecidedAt(mind.url, { slots });
    const told = await ask(gateway, { tools: { deny: ['upstream:mi*'] } });
    expect(mind.requests).toHaveLength(0);
    expect(told.warnings.join()).toContain('denied by `upstream:mi*`');
  });

  test('on slots and roles say nothing of the policy', async () => {
    const mind = await serverThat(() => calls('answer', 'answer-1'));
    await ask(await gatewayDecidedAt(mind.url), { tools: { allow: ['answer', 'upstream:experts'] } });
    expect(mind.requests).toHaveLength(1);
  });

  test('keep the request from the policy where no fallback is allowed, with an error that says why', async () => {
    const mind = await serverThat(() => calls('answer', 'answer-1'));
    const gateway = await gatewayDecidedAt(mind.url, { policy: { fallback: 'none' } });
    const error = await refusal(ask(gateway, { privacy: 'self_hosted' }));
    expect(error).toMatchObject({ status: 503, code: 'policy_unavailable' });
    expect(error.message).toContain('its class is no_training, and this run needs self_hosted');
    expect(mind.requests).toHaveLength(0);
  });

  test('bind the policy once own documents are in the evidence', async () => {
    const mind = await serverThat(() => calls('search', 'search-1'));
    const gateway = await gatewayDecidedAt(mind.url);
    const told = await ask(gateway);
    expect(told.decidedBy).toEqual(['mind/router-8b', 'estimate']);
    expect(told.warnings.join()).toContain('policy_skipped');
    expect(JSON.stringify(gateway.experts.requests.at(-1)?.body)).toContain('marked-4711');
    expect(JSON.stringify(mind.requests.map(({ body }) => body))).not.toContain('marked-4711');
  });
});

describe('money', () => {
  test.each([0.005, 0.01, 0.018, 0.0185, 0.02, 0.021, 0.0215, 0.03, 0.05, 0.2])(
    'of %d USD is never passed, and always ends in an answer',
    async (maxUsd) => {
      // The dearest answer that is offered.
      const mind = await serverThat(({ body }) =>
        calls('answer', JSON.stringify(body['tools']).includes('answer-1') ? 'answer-1' : 'answer-2'),
      );
      const told = await ask(await gatewayDecidedAt(mind.url), { max_cost_usd: maxUsd });
      expect(told.text).toMatch(/^I am (dear|cheap)\.$/);
      expect(told.usd).toBeLessThanOrEqual(maxUsd);
      // Two attempts may cost 2 × (8192 + 2 × 500) micro-dollars, and the cheapest answer some 2000 more.
      expect(mind.requests).toHaveLength(maxUsd > 0.0205 ? 1 : 0);
    },
  );

  test('covers what was decided on, however dear the decision was', async () => {
    const dear = { prompt_tokens: 8000, completion_tokens: 400 };
    const mind = await serverThat(({ body }) => ({
      ...calls('answer', JSON.stringify(body['tools']).includes('answer-1') ? 'answer-1' : 'answer-2'),
      usage: dear,
    }));
    const told = await ask(await gatewayDecidedAt(mind.url), { max_cost_usd: 0.035 });
    expect(told).toMatchObject({ decisionsUsd: 0.0088, warnings: [] });
    expect(told.slots).toHaveLength(1);
  });

  describe('where no fallback is allowed', () => {
    const alone = { policy: { fallback: 'none' } };

    test('that covers no decision beside the cheapest answer is 422 with the amount that does', async () => {
      const mind = await serverThat(() => calls('answer', 'answer-2'));
      const gateway = await gatewayDecidedAt(mind.url, alone);
      // 0.003 would do for an answer at the cheap slot, 0.019 for a decision.
      for (const max_cost_usd of [0.003, 0.019]) {
        const error = await refusal(ask(gateway, { max_cost_usd }));
        expect(error).toMatchObject({ status: 422, code: 'limits_unsatisfiable', param: 'preferences.max_cost_usd' });
        expect(error.message).toContain('a decision and the cheapest answer need up to');
      }
      expect(mind.requests).toHaveLength(0);
      const { message } = await refusal(ask(gateway, { max_cost_usd: 0.003 }));
      const needed = Number(/need up to (0\.\d+)/.exec(message)?.[1]);
      expect(await ask(gateway, { max_cost_usd: needed })).toMatchObject({
        slots: ['answer-2'],
        decisionsUsd: decisionUsd,
      });
    });

    test('that the day of the key lacks is 402', async () => {
      const mind = await serverThat(() => calls('answer', 'answer-2'));
      const gateway = await gatewayDecidedAt(mind.url, { ...alone, ceiling: { max_cost_usd_per_day: 0.01 } });
      expect(await refusal(ask(gateway))).toMatchObject({ status: 402, code: 'insufficient_quota' });
      expect(mind.requests).toHaveLength(0);
    });

    test('that is spent in the middle of a run is 402, and the record says on what', async () => {
      const whole = { prompt_tokens: 16_000, completion_tokens: 900 };
      const mind = await serverThat(() => ({ ...calls('answer', 'answer-1'), usage: whole }));
      const gateway = await gatewayDecidedAt(mind.url, {
        ...alone,
        // It breaks off, billed for 0.009 USD.
        expert: () => ({
          ...replies.says('a', 'b'),
          usage: { prompt_tokens: 100, completion_tokens: 200 },
          usagePlacement: 'every_chunk',
          cutAfterChunks: 2,
        }),
      });
      const error = await refusal(ask(gateway, { max_cost_usd: 0.045 }));
      expect(error).toMatchObject({ status: 402, code: 'insufficient_quota' });
      expect(error.message).toContain('no decision');
      expect(mind.requests).toHaveLength(1);
      const run = await fetch(`${gateway.url}/v1/orchestra/runs/${error.headers?.get('x-orchestra-run-id')}`);
      expect(await run.json()).toMatchObject({
        status: 'failed',
        cost: { total: 0.0268 },
        turns: [{ slot: 'answer-1' }],
      });
    });

    test('is not blamed where everybody who answers has failed and only steps are left', async () => {
      const mind = await serverThat(({ body }) =>
        calls('answer', JSON.stringify(body['tools']).includes('answer-1') ? 'answer-1' : 'answer-2'),
      );
      const gateway = await gatewayDecidedAt(mind.url, {
        ...alone,
        slots: { 'search-2': { role: 'search', tools: ['own'], quality: 'own documents' } },
        expert: () => replies.serverError(),
      });
      const error = await refusal(ask(gateway));
      expect(error).toMatchObject({ status: 502, code: 'upstream_failed' });
      expect(mind.requests).toHaveLength(2);
    });

    test('is not asked for a decision where there is but one choice', async () => {
      const mind = await serverThat(() => calls('answer', 'answer-2'));
      const gateway = await gatewayDecidedAt(mind.url, alone);
      const told = await ask(gateway, { max_cost_usd: 0.003, tools: { allow: ['answer-2'] } });
      expect(told).toMatchObject({ slots: ['answer-2'], decidedBy: ['only choice'] });
    });
  });

  test('is booked for what the policy was given when the client leaves it thinking', async () => {
    const mind = await serverThat(() => replies.silence);
    const gateway = await gatewayDecidedAt(mind.url);
    const leave = new AbortController();
    const body = { model: 'orchestra', messages: [{ role: 'user' as const, content: 'Hello?' }] };
    const left = gateway.client.chat.completions.create(body, { signal: leave.signal });
    const outcome = expect(left).rejects.toThrow(/abort/i);
    await waitUntil(() => mind.requests.length === 1, 'the policy to be asked');
    leave.abort();
    await outcome;
    await mind.aborted(1);
    const listed = async () => {
      const { data } = (await (await fetch(`${gateway.url}/v1/orchestra/runs`)).json()) as {
        data: { status: string; cost: { total: number } }[];
      };
      return data[0];
    };
    const deadline = Date.now() + 5_000;
    while ((await listed()) === undefined && Date.now() < deadline) await new Promise((next) => setTimeout(next, 20));
    const run = await listed();
    expect(run?.status).toBe('cancelled');
    expect(run?.cost.total).toBeGreaterThan(0);
    expect(run?.cost.total).toBeLessThan(0.001);
  });
});

describe('our own gateway as the model', () => {
  test('decides through a relay', async () => {
    const inner = await startTestGateway({ openAi: () => calls('answer', 'answer-2') });
    open.push(inner.close);
    const outer = await gatewayDecidedAt(`${inner.url}/v1`, { model: 'loopback/dear' });
    const told = await ask(outer);
    expect(told).toMatchObject({ slots: ['answer-2'], decidedBy: ['mind/loopback/dear'], decisionsUsd: decisionUsd });
    expect(JSON.stringify(inner.openAi.requests[0]?.body['tools'])).toContain('answer-1');
  });

  test('decides as an orchestrated model, whose expert sees our functions as client tools', async () => {
    const inner = await startTestGateway({ openAi: () => calls('answer', 'answer-2') });
    open.push(inner.close);
    const outer = await gatewayDecidedAt(`${inner.url}/v1`, { model: 'orchestra' });
    const told = await ask(outer);
    expect(told).toMatchObject({ slots: ['answer-2'], decidedBy: ['mind/orchestra'], warnings: [] });
    expect(inner.openAi.requests[0]?.body).toMatchObject({ model: 'dear', temperature: 0 });
  });
});
