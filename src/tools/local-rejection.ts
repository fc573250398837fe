import { EngineFailure } from '../inference/engine.ts';
import type { UpstreamFailure } from '../upstream/chat.ts';
import type { RelayRejection } from '../upstream/relay-answer.ts';

/**
 * What the client of a local model has to mend. Of an invalid request it also gets the engine's own words, which name
 * parts of what the client sent and nothing else; records keep the failure alone.
 */
export function rejection(failure: UpstreamFailure): RelayRejection {
  const { kind, cause } = failure;
  const why = cause instanceof EngineFailure && cause.kind === 'invalid' ? cause.message : undefined;
  const message = why === undefined ? failure.message : `${failure.message.replace(/\.$/, ':')} ${why}.`;
  const code = kind === 'context_length_exceeded' ? kind : null;
  const error = { message, type: 'invalid_request_error', param: null, code };
  return { kind: 'rejected', headers: {}, status: 400, failure, error };
}
