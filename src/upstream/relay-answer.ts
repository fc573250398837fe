import type { Dispatcher } from 'undici';
import type { Usage } from '../cost/usage.ts';
import type { FailureKind, UpstreamFailure } from './chat.ts';
import { cleanWords } from './clean-words.ts';
import { failureInAnswer, failureOf, failureOfBody, failureOfStatus, readWireError } from './failure.ts';
import { type Patience, readText } from './patience.ts';
import { isObject, type JsonObject } from './relay-request.ts';
import { usageFromWire } from './wire-usage.ts';

/** Safe to pass on: rate limits and timing, never cookies, hosts or encodings. */
export type SafeHeaders = Readonly<Record<string, string>>;

/** A whole JSON body, with its usage if it had any. */
export interface RelayAnswer {
  readonly kind: 'answer';
  readonly headers: SafeHeaders;
  readonly body: JsonObject;
  readonly usage: Usage | undefined;
}

/** The client's own mistake, which only the client can mend: the upstream's status and, cleaned, its words. */
export interface RelayRejection {
  readonly kind: 'rejected';
  readonly headers: SafeHeaders;
  readonly status: number;
  readonly failure: UpstreamFailure;
  /** OpenAI's error object without our key, host or any link. */
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

type Response = Dispatcher.ResponseData;

/**
 * Reads a body to its end.
 * @throws UpstreamFailure for everything that is not the client's own mistake.
 */
export async function readWhole(
  response: Response,
  patience: Patience,
  secrets: readonly string[],
): Promise<RelayAnswer | RelayRejection> {
  const headers = safeHeaders(response.headers);
  const text = await readText(response.body, patience).catch((thrown: unknown) => {
    throw failureOfBody(thrown, undefined);
  });
  if (response.statusCode !== 200) return readRejection(response, headers, text, secrets);
  requireType(response, /json/);
  const body = parseJson(text);
  if (!isObject(body)) throw failureOf('malformed');
  const { error, ...answer } = body;
  const usage = usageFromWire(answer['usage']);
  if (error !== undefined && error !== null) throw failureInAnswer(error, usage);
  return { kind: 'answer', headers, body: answer, usage };
}

/** @throws UpstreamFailure `malformed` for another type, or an encoding although none was accepted. */
export function requireType({ headers }: Response, type: RegExp): void {
  const encoded = headers['content-encoding'] !== undefined && headers['content-encoding'] !== 'identity';
  if (encoded || !type.test(String(headers['content-type']))) throw failureOf('malformed');
}

export function safeHeaders(headers: Response['headers']): SafeHeaders {
  const safe = Object.entries(headers).filter(
    (entry): entry is [string, string] =>
      typeof entry[1] === 'string' && /^(x-ratelimit-.*|retry-after(-ms)?|openai-processing-ms)$/.test(entry[0]),
  );
  return Object.fromEntries(safe);
}

const ofTheClient: readonly FailureKind[] = ['rejected', 'context_length_exceeded', 'schema_refused'];

function readRejection(response: Response, headers: SafeHeaders, text: string, secrets: readonly string[]) {
  const status = response.statusCode;
  const body = parseJson(text);
  const failure = failureOfStatus(status, { get: (name) => headers[name] }, body, Date.now(), secrets);
  if (!ofTheClient.includes(failure.kind)) throw failure;
  // A redirect, or a success that is none, is no verdict on what the client sent.
  if (status < 400) throw failureOf('malformed');
  const { message, type, param, code } = readWireError(body);
  const error = {
    message: cleanWords(message, secrets) ?? failure.message,
    type: cleanWords(type, secrets) ?? 'invalid_request_error',
    param: cleanWords(param, secrets) ?? null,
    code: failure.kind === 'context_length_exceeded' ? failure.kind : (cleanWords(code?.toString(), secrets) ?? null),
  };
  return { kind: 'rejected' as const, headers, status, failure, error };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
