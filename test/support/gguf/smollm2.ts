import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * Real weights for the tests that need some: `ORCHESTRA_TEST_SMOLLM2`, or where `models pull` puts them. Without the
 * file those tests are reported as skipped; `ORCHESTRA_REQUIRE_SMOLLM2=1` makes its absence a failure.
 */
export const smolLm2Path =
  process.env['ORCHESTRA_TEST_SMOLLM2'] ?? join(homedir(), '.cache/orchestra/models/smollm2-135m-instruct.Q4_1.gguf');

const required = process.env['ORCHESTRA_REQUIRE_SMOLLM2'] === '1';

export const skipsSmolLm2 = !existsSync(smolLm2Path) && !required;
