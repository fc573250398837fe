import { z } from 'zod';
import type { Usage } from '../cost/usage.ts';
import { type FailureKind, UpstreamFailure } from './chat.ts';
import { cleanWords } from './clean-words.ts';
import { FrameTooLargeError } from './sse.ts';

/** OpenAI's error object, as far as upstreams agree on it. Hostile text: only `code` and `param` are ever quoted. */
const optionalText = z.string().optional().catch(undefined);
const wireError = z.looseObject({
  message: optionalText,
  type: optionalText,
  param: optionalText,
  code: z.union([z.string(), z.number()]).optional().catch(undefined),
});
const envelope = z.object({ error: z.unknown() });
type WireError = z.infer<typeof wireError>;

/** Reads `{error: {…}}`, `{error: "…"}`, or the error object itself; anything else is an empty error. */
export function readWireError(body: unknown): WireError {
  const inner = envelope.safeParse(body).data?.error ?? body;
  if (typeof inner === 'string') return { message: inner };
  return wireError.safeParse(inner).data ?? {};
}

export interface HeaderReader {
  get(name: string): string | null | undefined;
}

/**
 * A failed status in our words. The upstream's own text stays behind, since it may quote our key or host; only why it
 * refused a schema is kept, cleaned of both.
 */
export function failureOfStatus(
  status: number,
  headers: HeaderReader,
  body: unknown,
  nowMs: number,
  secrets: readonly string[],
): UpstreamFailure {
  const error = readWireError(body);
  const kind = kindOf(status, error);
  const retryAfterMs = readRetryAfter(headers, nowMs) ?? delayInBody(body);
  const reason = kind === 'schema_refused' ? cleanWords(error.message, secrets) : undefined;
  return new UpstreamFailure(kind, `${sentences[kind]} (status ${status}${quote(error)}).`, {
    status,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(reason === undefined ? {} : { reason }),
  });
}

/** An error inside an answer that began with status 200. */
export function failureInAnswer(body: unknown, usage: Usage | undefined): UpstreamFailure {
  const error = readWireError(body);
  const kind = kindOf(impliedStatus(error), error);
  return new UpstreamFailure(kind, `${sentences[kind]} (inside its answer${quote(error)}).`, usage ? { usage } : {});
}

/** Whatever a network library threw. Its message and cause name hosts, so only the system's error code is kept. */
export function failureOfNetwork(thrown: unknown): UpstreamFailure {
  if (thrown instanceof UpstreamFailure) return thrown;
  const code = systemCode(thrown, 0);
  return new UpstreamFailure('connection', `${sentences.connection}${code ? ` (${code})` : ''}.`);
}

/** What broke while an answer was being read: a lost connection is a cut stream there, and usage seen so far is kept. */
export function failureOfBody(thrown: unknown, usage: Usage | undefined): unknown {
  if (thrown instanceof FrameTooLargeError) return failureOf('malformed', usage);
  if (!(thrown instanceof UpstreamFailure) || thrown.usage) return thrown;
  if (thrown.kind === 'connection') return failureOf('cut_stream', usage);
  return thrown.kind === 'timeout' ? failureOf('timeout', usage) : thrown;
}

export const failureOf = (kind: FailureKind, usage?: Usage): UpstreamFailure =>
  new UpstreamFailure(kind, `${sentences[kind]}.`, usage ? { usage } : {});

const sentences: Record<FailureKind, string> = {
  rate_limited: 'The upstream limits our rate',
  server_error: 'The upstream failed',
  unauthorized: 'The upstream refused our key or account',
  context_length_exceeded: 'The request is too long for the upstream model',
  rejected: 'The upstream rejected the request',
  schema_refused: 'The upstream refused the schema for its answer',
  timeout: 'The upstream was silent for too long',
  connection: 'The connection to the upstream failed',
  cut_stream: 'The upstream broke off before its answer was complete',
  malformed: 'The upstream sent something that is not an answer',
};

const tooLong =
  /context.?(length|window|size|limit)|maximum context|(prompt|input) is too long|too many (input )?tokens|exceed_context/i;

function kindOf(status: number, error: WireError): FailureKind {
  if (status === 413) return 'context_length_exceeded';
  // Bedrock limits its rate with "Too many tokens, please wait".
  if (status < 500 && status !== 429 && tooLong.test(`${error.code} ${error.type} ${error.message}`))
    return 'context_length_exceeded';
  if (status === 401 || status === 402 || status === 403) return 'unauthorized';
  if (accountIsEmpty(error)) return 'unauthorized';
  if (status === 429) return 'rate_limited';
  if (status === 408) return 'timeout';
  if (status >= 500) return 'server_error';
  return refusesSchema(status, error) ? 'schema_refused' : 'rejected';
}

/** By the field that is named, or by the words of servers that name none. Schemas of tools are another matter. */
function refusesSchema(status: number, { param, code, message }: WireError): boolean {
  const words = `${param} ${code} ${message}`;
  return (
    (status === 400 || status === 422) &&
    /response.?(format|schema)|json.?schema|text\.format|structured.?output/i.test(words) &&
    !/\b(tools?|functions?)\b/i.test(words)
  );
}

/** Waiting does not refill an account, so this is neither a rate limit nor a bad request, whichever status it wears. */
const accountIsEmpty = ({ code, type, message }: WireError): boolean =>
  code === 'insufficient_quota' ||
  /^(insufficient_quota|billing_error)$/.test(type ?? '') ||
  /credit balance/i.test(message ?? '');

/** Streams carry no status; a numeric code is one, and the type says the rest. */
function impliedStatus(error: WireError): number {
  const code = Number(error.code);
  if (code >= 400 && code < 600) return code;
  const words = `${error.code} ${error.type}`;
  if (/rate.?limit/i.test(words)) return 429;
  if (/authentication|permission|api_key/i.test(words)) return 401;
  return /invalid_request|invalid_prompt|context/i.test(words) ? 400 : 500;
}

/** A code and a field name made of plain lower-case words are harmless; keys and hosts never look like that. */
function quote({ code, param }: WireError): string {
  const words = [code, param].filter((word) => typeof word === 'string' && /^[a-z]+(_[a-z]+)*$/.test(word));
  return words.length > 0 ? `, ${words.join(', ')}` : '';
}

const longestWaitMs = 24 * 3_600_000;

/** `retry-after-ms`, or `retry-after` in seconds or as a date, in milliseconds from `nowMs`. */
export function readRetryAfter(headers: HeaderReader, nowMs: number): number | undefined {
  const exact = waitFrom(headers.get('retry-after-ms'), 1);
  if (exact !== undefined) return exact;
  const text = headers.get('retry-after');
  const seconds = waitFrom(text, 1_000);
  if (seconds !== undefined || !text) return seconds;
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : clampWait(date - nowMs);
}

/** Some upstreams put the delay into the body: `"retryDelay": "17s"`. */
function delayInBody(body: unknown): number | undefined {
  const match = /"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(JSON.stringify(body) ?? '');
  return waitFrom(match?.[1], 1_000);
}

function waitFrom(text: string | null | undefined, unitMs: number): number | undefined {
  const amount = text?.trim() ? Number(text) : Number.NaN;
  return Number.isNaN(amount) ? undefined : clampWait(amount * unitMs);
}

const clampWait = (waitMs: number): number => Math.min(longestWaitMs, Math.max(0, Math.ceil(waitMs)));

function systemCode(thrown: unknown, depth: number): string | undefined {
  if (!(thrown instanceof Error) || depth > 4) return undefined;
  const code = 'code' in thrown ? thrown.code : undefined;
  return typeof code === 'string' && /^[A-Z_]+$/.test(code) ? code : systemCode(thrown.cause, depth + 1);
}
