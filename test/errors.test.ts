import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { errorCodes, errorTable, OrchestraError, toOrchestraError } from '../src/errors.ts';

/** Code and status of each row in ARCHITECTURE.md's table of errors. */
const documented = [
  ...readFileSync(new URL('../ARCHITECTURE.md', import.meta.url), 'utf8').matchAll(
    /^\| `?([a-z_]+)`? \| (\d{3}) \| \S/gm,
  ),
].map(([, code = '', status]) => ({ code, status: Number(status) }));

describe("ARCHITECTURE.md's table", () => {
  test('has one row for every code, and none for others', () => {
    expect(documented.length).toBeGreaterThan(0);
    expect(documented.map(({ code }) => code).sort()).toEqual([...errorCodes].sort());
  });

  test.each(documented)('tells the status of $code', ({ code, status }) => {
    const known = errorCodes.find((candidate) => candidate === code);
    expect(known && errorTable[known].status).toBe(status);
  });
});

describe('whatever is thrown', () => {
  test('stays as it is when it was meant for the client', () => {
    const error = new OrchestraError('not_found', 'There is no such run.');
    expect(toOrchestraError(error)).toBe(error);
  });

  test('is a cancellation when somebody gave up', () => {
    expect(toOrchestraError(new DOMException('aborted', 'AbortError'))).toMatchObject({ code: 'cancelled' });
  });

  test.each([[new TypeError('sk-secret at 10.0.0.7')], ['sk-secret'], [undefined], [{ message: 'sk-secret' }]])(
    'else tells nothing of itself: %s',
    (thrown) => {
      const error = toOrchestraError(thrown);
      expect(error.code).toBe('internal');
      expect(error.message).not.toMatch(/sk-secret|10\.0/);
      expect(error.cause).toBe(thrown);
    },
  );
});
