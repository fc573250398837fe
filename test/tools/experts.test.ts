import { afterEach, describe, expect, test } from 'vitest';
import { usageOf } from '../../src/cost/usage.ts';
import {
  EngineFailure,
  type GenerateEvent,
  type GenerateRequest,
  type InferenceEngine,
} from '../../src/inference/engine.ts';
import type { Expert, ExpertRequest } from '../../src/tools/expert.ts';
import { createLocalExpert } from '../../src/tools/local-expert.ts';
import { createRemoteExpert } from '../../src/tools/remote-expert.ts';
import type { ChatEvent } from '../../src/upstream/chat.ts';
import { createOpenAiUpstream } from '../../src/upstream/openai.ts';
import { replies } from '../support/loopback/openai-replies.ts';
import { type OpenAiServer, startOpenAiServer } from '../support/loopback/openai-server.ts';

interface Stage {
  readonly expert: Expert;
  close(): Promise<void>;
}

/** What every expert has to do, whatever it runs on. */
interface ExpertKind {
  readonly name: string;
  says(...text: string[]): Promise<Stage>;
  fails(): Promise<Stage>;
  /** Writes one piece, then nothing more. */
  hangs(): Promise<Stage>;
}

const servers: OpenAiServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function remote(script: Parameters<typeof startOpenAiServer>[0]): Promise<Stage> {
  const server = await startOpenAiServer(script);
  servers.push(server);
  const upstream = createOpenAiUpstream({ name: 'loopback', baseUrl: server.url, apiKey: 'key' });
  return { expert: createRemoteExpert({ upstream, model: 'loopback' }), close: () => server.close() };
}

/** Stands in for a GGUF: what an engine may answer is its interface, and that is all this suite is about. */
function engineThat(generate: InferenceEngine['generate']): InferenceEngine {
  const absent = () => Promise.reject(new Error('not part of this test'));
  const info = { architecture: 'test', device: 'cpu', contextTokens: 512, takesTools: true, weightsHash: '' };
  const others = { score: absent, judge: absent, countTokens: absent, useAdapter: absent };
  return { info, generate, ...others, close: async () => {} };
}

const local = async (generate: InferenceEngine['generate']): Promise<Stage> => ({
  expert: createLocalExpert(engineThat(generate), { temperature: 0.3, topP: 0.8, frequencyPenalty: 0.1 }),
  close: async () => {},
});

const engineEnd: GenerateEvent = {
  type: 'end',
  finishReason: 'stop',
  usage: { promptTokens: 7, cachedTokens: 2, outputTokens: 3 },
};

const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_resolve, reject) => {
    const stop = () => reject(new DOMException('stop', 'AbortError'));
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
  });

const kinds: readonly ExpertKind[] = [
  {
    name: 'remote',
    says: (...text) => remote(() => ({ ...replies.says(...text), chunkDelayMs: 200 })),
    fails: () => remote(() => replies.serverError()),
    hangs: () => remote(() => ({ kind: 'completion', text: ['one', 'two'], hangAfterChunks: 2 })),
  },
  {
    name: 'local',
    says: (...text) =>
      local(async function* () {
        for (const piece of text) yield { type: 'text', text: piece };
        yield engineEnd;
      }),
    fails: () =>
      // biome-ignore lint/correctness/useYield: it fails first
      local(async function* () {
        throw new EngineFailure('crashed', 'host process 4711 of /models/secret.gguf died');
      }),
    hangs: () =>
      local(async function* ({ signal }) {
        yield { type: 'text', text: 'one' };
        await untilAborted(signal);
      }),
  },
];

const requestOf = (part: Partial<ExpertRequest> = {}): ExpertRequest => ({
  messages: [{ role: 'user', content: 'Hi' }],
  maxOutputTokens: 50,
  options: {},
  signal: new AbortController().signal,
  ...part,
});

async function eventsOf(expert: Expert, request: ExpertRequest): Promise<ChatEvent[]> {
  const events: ChatEvent[] = [];
  for await (const event of expert.complete(request)) events.push(event);
  return events;
}

for (const kind of kinds) {
  describe(`a ${kind.name} expert`, () => {
    test('writes text in pieces and ends once, with usage', async () => {
      const { expert } = await kind.says('Good', ' day');
      const events = await eventsOf(expert, requestOf());
      expect(events.slice(0, -1)).toEqual([
        { type: 'text', text: 'Good' },
        { type: 'text', text: ' day' },
      ]);
      expect(events.at(-1)).toMatchObject({ type: 'end', finishReason: 'stop', usage: { calls: 1 } });
    });

    test('fails in the words of upstreams, without host or file', async () => {
      const { expert } = await kind.fails();
      const failure = eventsOf(expert, requestOf());
      await expect(failure).rejects.toMatchObject({ name: 'UpstreamFailure', kind: 'server_error' });
      await expect(failure).rejects.not.toMatchObject({ message: expect.stringMatching(/127\.0\.0\.1|gguf|4711/) });
    });

    test('stops with an AbortError when its signal fires', async () => {
      const { expert } = await kind.hangs();
      const leaving = new AbortController();
      const seen: string[] = [];
      const read = async () => {
        for await (const event of expert.complete(requestOf({ signal: leaving.signal }))) {
          seen.push(event.type);
          leaving.abort();
        }
      };
      await expect(read()).rejects.toMatchObject({ name: 'AbortError' });
      expect(seen).toEqual(['text']);
    });
  });
}

test('a remote expert passes its model, its limit and the options on', async () => {
  await remote(() => replies.says('Hi')).then(({ expert }) =>
    eventsOf(expert, requestOf({ options: { temperature: 0.3 }, maxOutputTokens: 77 })),
  );
  expect(servers[0]?.requests[0]?.body).toMatchObject({ model: 'loopback', max_tokens: 77, temperature: 0.3 });
});

test('a remote expert that is silent fails by its own clock', async () => {
  const server = await startOpenAiServer(() => replies.silence);
  servers.push(server);
  const upstream = createOpenAiUpstream({ name: 'loopback', baseUrl: server.url, apiKey: 'key' });
  const expert = createRemoteExpert({ upstream, model: 'loopback', firstTokenTimeoutMs: 100 });
  await expect(eventsOf(expert, requestOf())).rejects.toMatchObject({ kind: 'timeout' });
});

describe('a local expert', () => {
  async function generateRequest(options: Record<string, unknown>): Promise<GenerateRequest> {
    const seen: GenerateRequest[] = [];
    const { expert } = await local(async function* (request) {
      seen.push(request);
      yield engineEnd;
    });
    await eventsOf(expert, requestOf({ options }));
    if (!seen[0]) throw new Error('the engine was not asked');
    return seen[0];
  }

  test('reads the options of sampling', async () => {
    const penalties = { presence_penalty: 1, frequency_penalty: -2 };
    const options = { temperature: 0, top_p: 0.5, stop: 'END', seed: 3, ...penalties };
    expect(await generateRequest(options)).toMatchObject({
      temperature: 0,
      topP: 0.5,
      presencePenalty: 1,
      frequencyPenalty: -2,
      stop: ['END'],
      seed: 3,
      maxTokens: 50,
    });
    expect(await generateRequest({ stop: ['a', '', 'b'] })).toMatchObject({ stop: ['a', 'b'] });
  });

  test('takes odd options as left out, samples as is usual for it and draws a seed of its own', async () => {
    const odd = { temperature: 9, top_p: 'x', frequency_penalty: 3, stop: 4, seed: -1, tools: [] };
    const first = await generateRequest(odd);
    expect(first).toMatchObject({ temperature: 0.3, topP: 0.8, frequencyPenalty: 0.1, stop: [] });
    expect((await generateRequest({})).seed).not.toBe(first.seed);
  });

  test('reads tools and what is to be done with them, and leaves out what it does not know', async () => {
    const tool = (name: string) => ({ type: 'function', function: { name, parameters: { type: 'object' } } });
    const bare = { type: 'function', function: { name: 'bare' } };
    const tools = [tool('one'), { type: 'custom', custom: {} }, tool('two'), bare];
    const read = async (options: object) => (await generateRequest({ tools, ...options })).toolUse;
    expect(await read({})).toMatchObject({
      tools: [{ name: 'one' }, { name: 'two' }, { name: 'bare' }],
      choice: 'auto',
      parallel: true,
    });
    expect(await read({ tool_choice: 'none' })).toBeUndefined();
    expect(await read({ tool_choice: { type: 'function', function: { name: 'two' } } })).toMatchObject({
      choice: { name: 'two' },
    });
    expect(await read({ tool_choice: 'required', parallel_tool_calls: false })).toMatchObject({
      choice: 'required',
      parallel: false,
    });
  });

  test('counts cached tokens apart', async () => {
    const { expert } = await local(async function* () {
      yield engineEnd;
    });
    const [end] = await eventsOf(expert, requestOf());
    const usage = usageOf({ inputTokens: 7, cacheReadTokens: 2, outputTokens: 3, calls: 1 });
    expect(end).toEqual({ type: 'end', finishReason: 'stop', usage });
  });
});
