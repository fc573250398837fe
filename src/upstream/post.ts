import { type Dispatcher, request } from 'undici';
import { failureOfStatus, type HeaderReader } from './failure.ts';
import { type Patience, readText } from './patience.ts';
import { wellFormedJson } from './well-formed.ts';

export interface Endpoint {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly dispatcher: Dispatcher;
  /** What no message may repeat. */
  readonly secrets: readonly string[];
}

/** What came back, whatever the status. */
export interface Response {
  readonly status: number;
  readonly ok: boolean;
  readonly headers: HeaderReader;
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Sends one JSON body. Whatever status comes back is an answer here; what it means is up to the dialect. Redirects are
 * not followed: one would carry the conversation to a host that nobody configured.
 */
export async function postJson(endpoint: Endpoint, body: object, patience: Patience): Promise<Response> {
  const { statusCode, headers, body: chunks } = await patience.during(send(endpoint, body, patience));
  return {
    status: statusCode,
    ok: statusCode >= 200 && statusCode < 300,
    headers: { get: (name) => headers[name]?.toString() },
    body: chunks,
  };
}

/** A promise even for what `request` throws at once, so that it is a failure like any other. */
const send = async ({ url, headers, dispatcher }: Endpoint, body: object, { signal }: Patience) =>
  request(url, { method: 'POST', headers, body: wellFormedJson(JSON.stringify(body)), signal, dispatcher });

/** The same where only a success is an answer. @throws UpstreamFailure for every other status. */
export async function postAccepted(endpoint: Endpoint, body: object, patience: Patience): Promise<Response> {
  const response = await postJson(endpoint, body, patience);
  if (response.ok) return response;
  const refusal = await readRefusal(response, patience);
  throw failureOfStatus(response.status, response.headers, refusal, Date.now(), endpoint.secrets);
}

/** The body of a refusal as JSON, or as text where it is none. */
export async function readRefusal({ body }: Response, patience: Patience): Promise<unknown> {
  const text = await readText(body, patience);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
