/**
 * Every failure a client can meet, as data: one closed list, one row of wire facts each.
 * A code without a row does not compile, and test/errors.test.ts holds ARCHITECTURE.md to this list.
 */

interface ErrorRow {
  readonly status: number;
  /** OpenAI's `error.type`. */
  readonly type: string;
  /** OpenAI's `error.code` where OpenAI has a word for the situation; ours otherwise. */
  readonly wireCode: string;
  /** Whether a client may send the same request again and hope. */
  readonly retryable: boolean;
}

export const errorCodes = [
  'invalid_request',
  'context_length_exceeded',
  'schema_refused',
  'unauthorized',
  'forbidden',
  'budget_exceeded',
  'unknown_model',
  'not_found',
  'method_not_allowed',
  'conflict',
  'payload_too_large',
  'unsupported_media_type',
  'limits_unsatisfiable',
  'rate_limited',
  'cancelled',
  'internal',
  'upstream_failed',
  'policy_busy',
  'policy_unavailable',
  'deadline_exceeded',
] as const;

export type ErrorCode = (typeof errorCodes)[number];

const row = (status: number, type: string, wireCode: string, retryable = false): ErrorRow => ({
  status,
  type,
  wireCode,
  retryable,
});

export const errorTable: Record<ErrorCode, ErrorRow> = {
  invalid_request: row(400, 'invalid_request_error', 'invalid_request'),
  context_length_exceeded: row(400, 'invalid_request_error', 'context_length_exceeded'),
  schema_refused: row(400, 'invalid_request_error', 'invalid_json_schema'),
  unauthorized: row(401, 'authentication_error', 'invalid_api_key'),
  forbidden: row(403, 'permission_error', 'forbidden'),
  budget_exceeded: row(402, 'insufficient_quota', 'insufficient_quota'),
  unknown_model: row(404, 'invalid_request_error', 'model_not_found'),
  not_found: row(404, 'invalid_request_error', 'not_found'),
  method_not_allowed: row(405, 'invalid_request_error', 'method_not_allowed'),
  conflict: row(409, 'invalid_request_error', 'conflict'),
  payload_too_large: row(413, 'invalid_request_error', 'payload_too_large'),
  unsupported_media_type: row(415, 'invalid_request_error', 'unsupported_media_type'),
  limits_unsatisfiable: row(422, 'invalid_request_error', 'limits_unsatisfiable'),
  rate_limited: row(429, 'rate_limit_error', 'rate_limit_exceeded', true),
  cancelled: row(499, 'invalid_request_error', 'cancelled'),
  internal: row(500, 'server_error', 'internal'),
  upstream_failed: row(502, 'server_error', 'upstream_failed'),
  policy_busy: row(503, 'server_error', 'policy_busy', true),
  policy_unavailable: row(503, 'server_error', 'policy_unavailable', true),
  deadline_exceeded: row(504, 'server_error', 'deadline_exceeded'),
};

export interface ErrorOptions {
  /** Path of the offending request field, such as `preferences.max_cost_usd`. */
  readonly param?: string;
  /** Facts that are safe to show: never hosts, keys or message texts. */
  readonly details?: Readonly<Record<string, unknown>>;
  readonly retryAfterMs?: number;
  /** Words of somebody else that may repeat the request: shown to the client behind the message, never kept or logged. */
  readonly quote?: string;
  /** What really happened; goes to the log only. */
  readonly cause?: unknown;
}

/** The only error that reaches a client. Its message is written to be shown. */
export class OrchestraError extends Error {
  readonly code: ErrorCode;
  readonly param: string | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterMs: number | undefined;
  readonly quote: string | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'OrchestraError';
    this.code = code;
    this.param = options.param;
    this.details = options.details;
    this.retryAfterMs = options.retryAfterMs;
    this.quote = options.quote;
  }
}

/** Turns anything thrown into an OrchestraError; what we did not foresee becomes `internal` with a fixed message. */
export function toOrchestraError(thrown: unknown): OrchestraError {
  if (thrown instanceof OrchestraError) return thrown;
  if (thrown instanceof Error && thrown.name === 'AbortError') {
    return new OrchestraError('cancelled', 'The request was cancelled.', { cause: thrown });
  }
  return new OrchestraError('internal', 'Something went wrong inside the gateway; the log has the cause.', {
    cause: thrown,
  });
}
