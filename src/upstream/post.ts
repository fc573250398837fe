import { type Dispatcher, fetch, type Response } from 'undici';
import type { Patience } from './patience.ts';
import { readText } from './patience.ts';
import { wellFormedJson } from './well-formed.ts';

export interface Endpoint {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly dispatcher: Dispatcher;
}

/** Sends one JSON body. Whatever status comes back is an answer here; what it means is up to the dialect. */
export function postJson({ url, headers, dispatcher }: Endpoint, body: object, patience: Patience): Promise<Response> {
  const sent = fetch(url, {
    method: 'POST',
    headers,
    body: wellFormedJson(JSON.stringify(body)),
    signal: patience.signal,
    dispatcher,
    // A redirect would carry the conversation to a host that nobody configured.
    redirect: 'manual',
  });
  return patience.during(sent);
}

/** The body of a refusal as JSON, or as text where it is none. */
export async function readRefusal({ body }: Response, patience: Patience): Promise<unknown> {
  const text = body ? await readText(body, patience) : '';
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
