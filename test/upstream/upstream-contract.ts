import { getEventListeners } from 'node:events';
import { afterEach, describe, expect, test } from 'vitest';
import { type Usage, usageOf } from '../../src/cost/usage.ts';
import {
  type CallLimits,
  type ChatEvent,
  type ChatRequest,
  type ChatUpstream,
  type FailureKind,
  UpstreamFailure,
} from '../../src/upstream/chat.ts';
import type { Listener } from '../support/loopback/listener.ts';
import type { WireToolCall } from '../support/loopback/openai-replies.ts';

/** What every upstream is asked to do in its own wire format. */
export type Reply =
  | {
      readonly kind: 'answer';
      readonly reasoning?: readonly string[];
      readonly text?: readonly string[];
      readonly toolCalls?: readonly WireToolCall[];
      readonly usage?: Partial<Usage>;
      /** The answer ends at the limit of its tokens. */
      readonly limited?: boolean;
      readonly bytesPerWrite?: number;
      /** Destroys the socket, or falls silent, behind so many pieces of text. */
      readonly cutAfterText?: number;
      readonly hangAfterText?: number;
      /** Comments or pings, whatever the dialect has, before every event. */
      readonly keepAlive?: boolean;
      readonly chunkDelayMs?: number;
      /** An error event instead of the rest, behind so many pieces of text. */
      readonly errorAfterText?: { readonly pieces: number; readonly error: 'rate_limited' | 'server_error' };
    }
  | { readonly kind: 'refusal'; readonly refusal: Refusal; readonly quoting?: string }
  | { readonly kind: 'raw'; readonly writes: readonly (string | Uint8Array)[]; readonly pauseMs?: number }
  | { readonly kind: 'silence' };

export type Refusal = 'rate_limited' | 'server_error' | 'unauthorized' | 'context_length_exceeded' | 'rejected';

export interface Subject {
  readonly name: string;
  /** A server that replies as told, and the upstream that calls it with this key. */
  start(reply: (attempt: number) => Reply, key: string): Promise<Started>;
  /** Usage as this dialect can tell it: a dialect may not tell reasoning, or cache writes, apart. */
  readonly usage: { readonly billed: Partial<Usage>; readonly reported: Partial<Usage> };
  /** Whether usage is known although the answer broke off. */
  readonly knowsUsageOfCutAnswers: boolean;
}

export interface Started {
  readonly upstream: ChatUpstream;
  readonly server: Omit<Listener, 'origin'>;
}

const key = 'sk-marked-secret-0123456789';

const request = (part: Partial<ChatRequest> = {}): ChatRequest => ({
  model: 'm-1',
  messages: [{ role: 'user', content: 'hi' }],
  maxOutputTokens: 64,
  options: {},
  ...part,
});

export const limits = (part: Partial<CallLimits> = {}): CallLimits => ({
  signal: new AbortController().signal,
  firstTokenTimeoutMs: 5_000,
  betweenTokensTimeoutMs: 5_000,
  ...part,
});

export async function collect(events: AsyncIterable<ChatEvent>): Promise<ChatEvent[]> {
  const all: ChatEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

/** Everything said before the failure, and the failure. */
export async function failing(
  events: AsyncIterable<ChatEvent>,
): Promise<{ said: ChatEvent[]; failure: UpstreamFailure }> {
  const said: ChatEvent[] = [];
  try {
    for await (const event of events) said.push(event);
  } catch (thrown) {
    if (thrown instanceof UpstreamFailure) return { said, failure: thrown };
    throw thrown;
  }
  throw new Error('the call did not fail');
}

export const textOf = (events: readonly ChatEvent[]) =>
  events.map((event) => (event.type === 'text' ? event.text : '')).join('');
export const endOf = (events: readonly ChatEvent[]) => events.find((event) => event.type === 'end');

/** Message, stack and causes: all that could reach a log. */
export function everythingIn(failure: unknown): string {
  if (!(failure instanceof Error)) return String(failure ?? '');
  return `${failure.message} ${failure.stack?.replaceAll(/file:.*|at .*/g, '')} ${everythingIn(failure.cause)}`;
}

/** What every ChatUpstream owes its callers, shown over real sockets. */
export function holdsTheUpstreamContract(subject: Subject): void {
  const running: Started['server'][] = [];
  afterEach(async () => {
    await Promise.all(running.splice(0).map((server) => server.close()));
  });

  async function startThat(reply: Reply | ((attempt: number) => Reply)): Promise<Started> {
    const started = await subject.start(typeof reply === 'function' ? reply : () => reply, key);
    running.push(started.server);
    return started;
  }
  const says = (...text: string[]): Reply => ({ kind: 'answer', text });

  describe('an answer', () => {
    test('arrives piece by piece and ends once, with the usage that was billed, disjoint', async () => {
      const { upstream } = await startThat({
        kind: 'answer',
        reasoning: ['think'],
        text: ['Hel', 'lo'],
        chunkDelayMs: 200,
        usage: subject.usage.billed,
      });
      expect(await collect(upstream.complete(request(), limits()))).toEqual([
        { type: 'reasoning', text: 'think' },
        { type: 'text', text: 'Hel' },
        { type: 'text', text: 'lo' },
        { type: 'end', finishReason: 'stop', usage: usageOf({ ...subject.usage.reported, calls: 1 }) },
      ]);
    });

    test('is read alike when characters are split between network reads', async () => {
      const { upstream } = await startThat({ kind: 'answer', text: ['Grüße ', '漢字 🎉'], bytesPerWrite: 1 });
      expect(textOf(await collect(upstream.complete(request(), limits())))).toBe('Grüße 漢字 🎉');
    });

    test('with tool calls has dense indices, and each id and name once', async () => {
      const { upstream } = await startThat({
        kind: 'answer',
        text: ['Let me see.'],
        toolCalls: [
          { id: 'c1', name: 'city_temp', arguments: '{"city":"Oslo"}' },
          { id: 'c2', name: 'f', arguments: '{}' },
        ],
      });
      const events = await collect(upstream.complete(request(), limits()));
      const deltas = events.filter((event) => event.type === 'tool_call');
      expect(deltas.flatMap(({ index, id, name }) => (id === undefined ? [] : [[index, id, name]]))).toEqual([
        [0, 'c1', 'city_temp'],
        [1, 'c2', 'f'],
      ]);
      const argumentsOf = (call: number) =>
        deltas.map(({ index, argumentsDelta }) => (index === call ? argumentsDelta : '')).join('');
      expect([argumentsOf(0), argumentsOf(1)]).toEqual(['{"city":"Oslo"}', '{}']);
      expect(endOf(events)).toMatchObject({ finishReason: 'tool_calls' });
    });

    test('that ends at its limit says so', async () => {
      const { upstream } = await startThat({ kind: 'answer', text: ['half a'], limited: true });
      expect(endOf(await collect(upstream.complete(request(), limits())))).toMatchObject({ finishReason: 'length' });
    });

    test('says `length` when a tool call broke off', async () => {
      const { upstream } = await startThat({
        kind: 'answer',
        toolCalls: [{ id: 'c1', name: 'f', arguments: '{"path":"a' }],
      });
      expect(endOf(await collect(upstream.complete(request(), limits())))).toMatchObject({ finishReason: 'length' });
    });

    test('gives its connection back', async () => {
      const { upstream, server } = await startThat(says('a'));
      for (let round = 0; round < 8; round += 1) await collect(upstream.complete(request(), limits()));
      expect(server.requests).toHaveLength(8);
      expect(new Set(server.requests.map(({ port }) => port)).size).toBeLessThanOrEqual(2);
    });
  });

  describe('the request', () => {
    test('carries the bound on the output, asks for a stream, and holds well-formed text only', async () => {
      const { upstream, server } = await startThat(says('ok'));
      const messages = [{ role: 'user' as const, content: 'half \ud83d, whole 🎉' }];
      await collect(upstream.complete(request({ messages }), limits()));
      const body = server.requests[0]?.body ?? {};
      expect(body).toMatchObject({ model: 'm-1', stream: true });
      expect([body['max_tokens'], body['max_output_tokens']]).toContain(64);
      expect(JSON.stringify(body)).toContain('half \ufffd, whole 🎉');
    });
  });

  describe('a refusal', () => {
    const kinds: readonly (readonly [Refusal, number, number | undefined])[] = [
      ['rate_limited', 429, 3_000],
      ['server_error', 500, undefined],
      ['unauthorized', 401, undefined],
      ['context_length_exceeded', 400, undefined],
      ['rejected', 400, undefined],
    ];
    test.each(kinds)('is %s, after one request', async (refusal, status, retryAfterMs) => {
      const { upstream, server } = await startThat({ kind: 'refusal', refusal });
      const { failure } = await failing(upstream.complete(request(), limits()));
      expect(failure).toMatchObject({ kind: refusal, status, usage: undefined });
      expect(failure.retryAfterMs).toBe(retryAfterMs);
      expect(server.requests).toHaveLength(1);
    });

    test.each(kinds)('that is %s shows neither key nor host', async (refusal) => {
      const quoting = `${key} at http://127.0.0.1/`;
      const { upstream } = await startThat({ kind: 'refusal', refusal, quoting });
      const { failure } = await failing(upstream.complete(request(), limits()));
      expect(failure.kind).toBe(refusal);
      expect(everythingIn(failure)).not.toMatch(/marked|127\.0\.0\.1|localhost|https?:/);
    });
  });

  describe('a failure', () => {
    test('to connect shows neither key nor host', async () => {
      const { upstream, server } = await startThat(says('x'));
      await server.close();
      const { failure } = await failing(upstream.complete(request(), limits()));
      expect(failure.kind).toBe('connection');
      expect(everythingIn(failure)).not.toMatch(/marked|127\.0\.0\.1|localhost|https?:/);
    });

    test.each(['rate_limited', 'server_error'] as const)('inside the stream is %s', async (error) => {
      const { upstream } = await startThat({
        kind: 'answer',
        text: ['a', 'b'],
        errorAfterText: { pieces: 1, error },
      });
      const { said, failure } = await failing(upstream.complete(request(), limits()));
      expect(textOf(said)).toBe('a');
      expect(failure.kind).toBe(error);
    });

    test('after text is a cut stream', async () => {
      const { upstream } = await startThat({ kind: 'answer', text: ['a', 'b', 'c'], cutAfterText: 2 });
      const { said, failure } = await failing(upstream.complete(request(), limits()));
      expect(textOf(said)).toBe('ab');
      expect(failure.kind).toBe('cut_stream');
      expect(failure.usage !== undefined).toBe(subject.knowsUsageOfCutAnswers);
    });

    test.each([
      ['a frame that is not JSON', [`data: ${key}\n\n`]],
      ['a frame that is no object', ['data: 7\n\n']],
      ['a frame without end', ['data: ', ...Array<Uint8Array>(9).fill(Buffer.alloc(1024 * 1024, 'x'))]],
    ])('is %s', async (_, writes) => {
      const { upstream } = await startThat({ kind: 'raw', writes });
      const { failure } = await failing(upstream.complete(request(), limits()));
      expect(failure.kind).toBe('malformed');
      expect(everythingIn(failure)).not.toMatch(/marked/);
    });

    test('leaves nothing behind on the signal that all calls of a run share', async () => {
      const { upstream } = await startThat((attempt) =>
        attempt === 1 ? says('a') : { kind: 'refusal', refusal: 'server_error' },
      );
      const { signal } = new AbortController();
      await collect(upstream.complete(request(), limits({ signal })));
      await failing(upstream.complete(request(), limits({ signal })));
      expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    });
  });

  describe('silence', () => {
    const timeout: FailureKind = 'timeout';
    test.each([
      ['no answer at all', { kind: 'silence' }],
      ['comments only', { kind: 'raw', writes: Array<string>(500).fill(': keep-alive\n\n'), pauseMs: 10 }],
      ['everything but a token', { kind: 'answer', text: ['a'], hangAfterText: 0 }],
    ] satisfies [string, Reply][])('before the first token ends the call: %s', async (_, reply) => {
      const { upstream, server } = await startThat(reply);
      const { failure } = await failing(upstream.complete(request(), limits({ firstTokenTimeoutMs: 150 })));
      expect(failure.kind).toBe(timeout);
      await server.aborted(1);
    });

    test('between tokens ends the call', async () => {
      const { upstream, server } = await startThat({ kind: 'answer', text: ['a', 'b'], hangAfterText: 1 });
      const { said, failure } = await failing(upstream.complete(request(), limits({ betweenTokensTimeoutMs: 150 })));
      expect(textOf(said)).toBe('a');
      expect(failure.kind).toBe(timeout);
      await server.aborted(1);
    });

    test('is not broken by keep-alives, however many come', async () => {
      const { upstream, server } = await startThat({ kind: 'answer', text: ['a'], keepAlive: true, chunkDelayMs: 400 });
      const { failure } = await failing(upstream.complete(request(), limits({ firstTokenTimeoutMs: 150 })));
      expect(failure.kind).toBe(timeout);
      await server.aborted(1);
    });
  });

  describe('leaving', () => {
    test.each([
      ['before the headers', { kind: 'silence' }],
      ['before the first token', { kind: 'answer', text: ['a'], hangAfterText: 0 }],
    ] satisfies [string, Reply][])('%s reaches the upstream', async (_, reply) => {
      const { upstream, server } = await startThat(reply);
      const leave = new AbortController();
      const result = collect(upstream.complete(request(), limits({ signal: leave.signal })));
      setTimeout(() => leave.abort(new Error('some other reason')), 50);
      await expect(result).rejects.toMatchObject({ name: 'AbortError' });
      await server.aborted(1);
    });

    test('in the middle reaches the upstream, by signal and by walking away', async () => {
      const { upstream, server } = await startThat({ kind: 'answer', text: ['a', 'b'], hangAfterText: 1 });
      const leave = new AbortController();
      const bySignal = async () => {
        for await (const _ of upstream.complete(request(), limits({ signal: leave.signal }))) leave.abort();
      };
      await expect(bySignal()).rejects.toMatchObject({ name: 'AbortError' });
      await server.aborted(1);
      for await (const _ of upstream.complete(request(), limits())) break;
      await server.aborted(2);
    });

    test('before it began sends nothing', async () => {
      const { upstream, server } = await startThat(says('a'));
      const result = collect(upstream.complete(request(), limits({ signal: AbortSignal.abort() })));
      await expect(result).rejects.toMatchObject({ name: 'AbortError' });
      expect(server.requests).toHaveLength(0);
    });
  });
}
