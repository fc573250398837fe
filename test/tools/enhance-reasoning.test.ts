import { afterEach, beforeAll, expect, test } from 'vitest';
import { loadContract } from '../../src/contract/load.ts';
import { createReasoningTool } from '../../src/tools/enhance-reasoning.ts';
import { createRemoteExpert } from '../../src/tools/remote-expert.ts';
import { openSandbox } from '../../src/tools/sandbox/open-sandbox.ts';
import type { CodeSandbox } from '../../src/tools/sandbox/sandbox.ts';
import { createOpenAiUpstream } from '../../src/upstream/openai.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiScript, type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';
import { aSlot } from '../support/slots.ts';
import { executed, inputOf } from './tool-input.ts';

const contract = loadContract('slots-2');
const limits = { wallMs: 3_000, cpuSeconds: 1, outputBytes: 2_000 };
let sandbox: CodeSandbox;
let server: OpenAiServer;

beforeAll(async () => {
  const opened = await openSandbox({ limits });
  if (!opened.available) throw new Error(opened.reason);
  sandbox = opened.sandbox;
}, 60_000);
afterEach(() => server.close());

async function toolThat(script: OpenAiScript, box: CodeSandbox = sandbox) {
  server = await startOpenAiServer(script);
  const upstream = createOpenAiUpstream({ name: 'loopback', baseUrl: server.url, apiKey: 'key' });
  const slot = aSlot({ id: 'reasoner-1', role: 'enhance_reasoning', maxOutputTokens: 300 });
  return createReasoningTool({
    slot,
    contract,
    sandbox: box,
    expert: createRemoteExpert({ upstream, model: 'loopback' }),
  });
}

const program = (code: string) => `Let us compute.\n\n\`\`\`python\n${code}\n\`\`\`\nDone.`;

test('the expert writes a program, and what it prints is the observation', async () => {
  const usage = { prompt_tokens: 40, completion_tokens: 20 };
  const tool = await toolThat(() => ({ ...replies.says(program('print(6 * 7)')), usage }));
  const { deltas, outcome } = await executed(tool, inputOf('What is six times seven?'));
  expect(deltas).toEqual([]);
  expect(outcome.observation).toEqual({ kind: 'code_run', run: { code: 'print(6 * 7)', output: '42' } });
  expect(outcome.usage).toMatchObject([
    { meter: 'reasoner-1', usage: { inputTokens: 40, outputTokens: 20 } },
    { meter: 'tool:python', usage: { calls: 1 } },
  ]);
  expect(outcome.usage[1]?.usage.durationMs).toBeGreaterThan(0);
});

test('the expert sees the problem, the task and at most the tokens of the slot', async () => {
  const tool = await toolThat(() => replies.says(program('print(1)')));
  await executed(tool, inputOf('What is six times seven?'));
  expect(server.requests[0]?.body).toMatchObject({ max_tokens: 300 });
  const sent = JSON.stringify(server.requests[0]?.body['messages']);
  expect(sent).toContain('What is six times seven?');
  const task = contract.expert.codeTask.replace('{libraries}', ['standard library', ...sandbox.packages].join(', '));
  expect(sent).toContain(JSON.stringify(task).slice(1, -1));
});

test.each([
  ['raises', 'print("before")\n1 / 0', /^before\nTraceback[\s\S]+ZeroDivisionError: division by zero$/],
  [
    'loops',
    'print("before", flush=True)\nwhile True: pass',
    /^before\n\[killed: used more than 1 s of processor time, or crashed\]$/,
  ],
  ['sleeps', 'import time\ntime.sleep(60)', /^\[stopped: ran longer than 3 s\]$/],
  ['floods', 'while True: print("x" * 99)', /^x{99}\n[x\n]+\n\[stopped: printed more than 2000 bytes\]$/],
  ['hides things', 'print("a\\x1b[2Jb\\u200bc\\u202e")', /^a\[2Jbc$/],
])('a program that %s is an observation too', async (_name, code, output) => {
  const tool = await toolThat(() => replies.says(program(code)));
  const { outcome } = await executed(tool, inputOf('x'));
  expect(outcome.observation).toMatchObject({ kind: 'code_run', run: { code, output: expect.stringMatching(output) } });
  expect(outcome.usage.map(({ meter }) => meter)).toEqual(['reasoner-1', 'tool:python']);
});

test.each([
  ['no program', 'The answer is 42.', ['reasoner-1']],
  ['half a program', '```python\nprint(4', ['reasoner-1']],
  ['a program that prints nothing', program('x = 42'), ['reasoner-1', 'tool:python']],
])('%s is a failure that may be tried again, and it is paid for', async (_name, text, meters) => {
  const tool = await toolThat(() => replies.says(text));
  const { outcome } = await executed(tool, inputOf('x'));
  expect(outcome.observation).toMatchObject({ kind: 'failed', retryable: true });
  expect(outcome.usage.map(({ meter }) => meter)).toEqual(meters);
});

test('an expert that fails is a failure, and nothing is run', async () => {
  const tool = await toolThat(() => replies.badKey());
  const { outcome } = await executed(tool, inputOf('x'));
  expect(outcome.observation).toMatchObject({ kind: 'failed', retryable: false, failure: 'unauthorized' });
  expect(outcome.usage.map(({ meter }) => meter)).toEqual(['reasoner-1']);
});

test('a sandbox that does not start is a failure without details of the host', async () => {
  const broken: CodeSandbox = {
    ...sandbox,
    execute: async () => ({ status: 'unavailable', stdout: '', stderr: 'bwrap: no /host/path', durationMs: 3 }),
  };
  const tool = await toolThat(() => replies.says(program('print(1)')), broken);
  const { outcome } = await executed(tool, inputOf('x'));
  expect(outcome.observation).toEqual({ kind: 'failed', reason: 'The sandbox did not start.', retryable: true });
});

test('the bound covers the expert and the longest run', async () => {
  const tool = await toolThat(() => replies.says(program('import time\ntime.sleep(60)')));
  const input = inputOf('x');
  const [expert, run] = tool.bound(input);
  const { outcome } = await executed(tool, input);
  expect(expert).toMatchObject({ meter: 'reasoner-1', usage: { outputTokens: 300, calls: 1 } });
  expect(run).toMatchObject({ meter: 'tool:python', usage: { calls: 1 } });
  expect(outcome.usage[1]?.usage.durationMs).toBeLessThanOrEqual(run?.usage.durationMs ?? 0);
});

test('a fired signal ends the program and is thrown', async () => {
  const leaving = new AbortController();
  const ends: boolean[] = [];
  const watched: CodeSandbox = {
    ...sandbox,
    execute: async (job) => {
      setTimeout(() => leaving.abort(new Error('the client left')), 100);
      return sandbox.execute(job).finally(() => ends.push(true));
    },
  };
  const tool = await toolThat(() => replies.says(program('import time\ntime.sleep(600)')), watched);
  await expect(executed(tool, inputOf('x', { signal: leaving.signal }))).rejects.toMatchObject({ name: 'AbortError' });
  expect(ends).toEqual([true]);
});
