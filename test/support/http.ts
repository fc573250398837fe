import { type Dispatcher, request } from 'undici';
import type { BareServer } from './bare-server.ts';

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The body as JSON; throws where it is none. */
  json(): Record<string, unknown>;
}

export interface Ask {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Objects are sent as JSON, everything else as it is. */
  readonly body?: object | string | Uint8Array;
}

/** One plain HTTP request, with nothing added that a test did not ask for. */
export async function ask({ origin }: BareServer, path: string, { method, headers, body }: Ask = {}): Promise<Reply> {
  const plain = typeof body === 'string' || body instanceof Uint8Array;
  const response = await request(origin + path, {
    method: (method ?? (body === undefined ? 'GET' : 'POST')) as Dispatcher.HttpMethod, // Tests send odd methods too.
    headers: headers ?? {},
    body: body === undefined ? null : plain ? body : JSON.stringify(body),
  });
  const text = await response.body.text();
  return {
    status: response.statusCode,
    headers: response.headers,
    text,
    json: () => JSON.parse(text) as Record<string, unknown>, // Tests read objects.
  };
}

export const user = (content: string) => [{ role: 'user', content }];

/** A chat completion of the virtual model; the last argument adds or replaces fields. */
export const askChat = (gateway: BareServer, fields: object = {}, headers: Readonly<Record<string, string>> = {}) =>
  ask(gateway, '/v1/chat/completions', { body: { model: 'orchestra', messages: user('hi'), ...fields }, headers });

export interface Chunk {
  readonly id: string;
  readonly object: string;
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
  readonly choices: readonly {
    readonly index: number;
    readonly delta: Readonly<Record<string, unknown>>;
    readonly finish_reason: string | null;
  }[];
  readonly usage?: Readonly<Record<string, unknown>>;
  readonly x_orchestra?: Readonly<Record<string, unknown>>;
  readonly error?: Readonly<Record<string, unknown>>;
}

/** Events of a stream in the strictest reading: one `data:` line and a blank line each, `[DONE]` last. */
export function chunksOf(text: string): Chunk[] {
  const events = text.split('\n\n');
  if (events.pop() !== '') throw new Error('the last event is not finished');
  const data = events.filter((event) => !event.startsWith(':')).map(dataLine);
  if (data.pop() !== '[DONE]') throw new Error('[DONE] is not last');
  return data.map((line) => JSON.parse(line) as Chunk); // Tests look at what is there.
}

function dataLine(event: string): string {
  if (!event.startsWith('data: ') || event.includes('\n')) throw new Error(`not one data line: ${event}`);
  return event.slice('data: '.length);
}

export const deltasOf = (chunks: readonly Chunk[]) =>
  chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta));

export const contentOf = (chunks: readonly Chunk[]): string =>
  deltasOf(chunks)
    .map(({ content }) => content ?? '')
    .join('');

/** The error inside an envelope. */
export const errorOf = (reply: Reply) => reply.json()['error'] as Readonly<Record<string, unknown>>; // Checked by tests.
