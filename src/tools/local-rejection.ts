import type { FailureKind, UpstreamFailure } from '../upstream/chat.ts';
import type { RelayRejection } from '../upstream/relay-answer.ts';

const codes: Partial<Record<FailureKind, readonly [code: string, param: string | null]>> = {
  context_length_exceeded: ['context_length_exceeded', null],
  schema_refused: ['invalid_json_schema', 'response_format'],
};

/** What the client of a local model has to mend, as OpenAI's error object. */
export function rejection(failure: UpstreamFailure): RelayRejection {
  const [code, param] = codes[failure.kind] ?? [null, null];
  const message = [failure.message, failure.reason].filter((text) => text !== undefined).join(' ');
  const error = { message, type: 'invalid_request_error', param, code };
  return { kind: 'rejected', headers: {}, status: 400, failure, error };
}
