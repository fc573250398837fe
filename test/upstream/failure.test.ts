import { expect, test } from 'vitest';
import { failureOfNetwork, failureOfStatus, readRetryAfter } from '../../src/upstream/failure.ts';

const now = Date.parse('2026-01-01T00:00:00Z');
const day = 24 * 3_600_000;

test.each([
  [{ 'retry-after': '2' }, 2_000],
  [{ 'retry-after': '0.25' }, 250],
  [{ 'retry-after': 'Thu, 01 Jan 2026 00:00:05 GMT' }, 5_000],
  [{ 'retry-after': 'Wed, 31 Dec 2025 00:00:00 GMT' }, 0],
  [{ 'retry-after': '-3' }, 0],
  [{ 'retry-after': '1e300' }, day],
  [{ 'retry-after': 'soon' }, undefined],
  [{ 'retry-after': ' ' }, undefined],
  [{ 'retry-after-ms': '120', 'retry-after': '9' }, 120],
  [{ 'retry-after-ms': 'x', 'retry-after': '9' }, 9_000],
  [{}, undefined],
])('%j means to wait %s ms', (headers, waitMs) => {
  expect(readRetryAfter(new Headers(headers as Record<string, string>), now)).toBe(waitMs);
});

test('a delay in the body counts where no header gives one', () => {
  const body = { error: { details: [{ '@type': 'RetryInfo', retryDelay: '17s' }] } };
  expect(failureOfStatus(429, new Headers(), body, now, []).retryAfterMs).toBe(17_000);
  expect(failureOfStatus(429, new Headers({ 'retry-after': '1' }), body, now, []).retryAfterMs).toBe(1_000);
});

test.each([
  [400, { error: { message: 'bad', code: 'invalid_value' } }, 'rejected'],
  [404, {}, 'rejected'],
  [409, 'flat text', 'rejected'],
  [301, undefined, 'rejected'],
  [401, { detail: 'no' }, 'unauthorized'],
  [402, {}, 'unauthorized'],
  [403, {}, 'unauthorized'],
  [429, {}, 'rate_limited'],
  [429, { message: 'Too many tokens, please wait before trying again.' }, 'rate_limited'],
  [429, { error: { type: 'insufficient_quota' } }, 'unauthorized'],
  [408, {}, 'timeout'],
  [413, {}, 'context_length_exceeded'],
  [
    400,
    { error: { message: 'the request exceeds the available context size', type: 'exceed_context_size_error' } },
    'context_length_exceeded',
  ],
  [400, { error: "This model's maximum context length is 4096 tokens" }, 'context_length_exceeded'],
  [422, { message: 'Input is too long for requested model.' }, 'context_length_exceeded'],
  [400, { error: { message: "Invalid schema for response_format 'x'", param: 'response_format' } }, 'schema_refused'],
  [400, { error: { message: 'Bad.', code: 'invalid_json_schema', param: 'text.format.schema' } }, 'schema_refused'],
  [
    400,
    { error: { message: 'JSON schema conversion failed: pattern', type: 'invalid_request_error' } },
    'schema_refused',
  ],
  [422, { message: 'The provided JSON schema has features that are not supported' }, 'schema_refused'],
  [400, { error: { message: "Invalid schema for function 'f': not a JSON schema", param: 'tools[0]' } }, 'rejected'],
  [404, { error: { message: 'no response_format here' } }, 'rejected'],
  [500, { error: { message: 'response_format' } }, 'server_error'],
  [500, { error: { message: 'context length' } }, 'server_error'],
  [503, null, 'server_error'],
  [529, [], 'server_error'],
] as const)('status %i with %j is %s', (status, body, kind) => {
  expect(failureOfStatus(status, new Headers(), body, now, [])).toMatchObject({ kind, status });
});

test('a harmless code and field name are quoted, and nothing else', () => {
  const body = { error: { message: 'sk-secret at http://host', code: 'invalid_value', param: 'temperature' } };
  expect(failureOfStatus(400, new Headers(), body, now, []).message).toBe(
    'The upstream rejected the request (status 400, invalid_value, temperature).',
  );
  const leaky = { error: { message: 'x', code: 'sk-Secret1', param: 'host.internal' } };
  expect(failureOfStatus(400, new Headers(), leaky, now, []).message).toBe(
    'The upstream rejected the request (status 400).',
  );
});

test('why a schema was refused is kept for its client, without key, host or link', () => {
  const message = 'response_format: `additionalProperties` at api.internal for sk-1, see https://docs.internal/x';
  const failure = failureOfStatus(400, new Headers(), { error: { message } }, now, ['sk-1', 'api.internal', '']);
  expect(failure.reason).toBe('response_format: `additionalProperties` at [hidden] for [hidden], see [link]');
  expect(failure.message).toBe('The upstream refused the schema for its answer (status 400).');
});

test('a long reason is cut, and no character with it', () => {
  const error = { message: `json_schema ${'🙂'.repeat(3_000)}`, param: 'response_format' };
  const { reason } = failureOfStatus(400, new Headers(), { error }, now, []);
  expect([...(reason ?? '')]).toHaveLength(2_000);
  expect(reason?.endsWith('🙂')).toBe(true);
});

test("of what the network throws only the system's code is kept", () => {
  const inner = Object.assign(new Error('connect ECONNREFUSED 10.1.2.3:443'), { code: 'ECONNREFUSED' });
  const failure = failureOfNetwork(new TypeError('fetch failed for https://host', { cause: inner }));
  expect(failure).toMatchObject({
    kind: 'connection',
    message: 'The connection to the upstream failed (ECONNREFUSED).',
  });
  expect(failure.cause).toBeUndefined();
  expect(failureOfNetwork('odd').message).toBe('The connection to the upstream failed.');
});
