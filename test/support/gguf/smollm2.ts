import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { settingsFrom } from '../../../src/assembly/settings.ts';
import { defaultModel } from '../../../src/commands/default-model.ts';
import { readDownloads } from '../../../src/inference/downloads/catalog.ts';

const file = readDownloads().find(({ id }) => id === defaultModel)?.file ?? '';

/**
 * Real weights for the tests that need some: `ORCHESTRA_TEST_SMOLLM2`, or where `models pull` puts them. Without the
 * file those tests are reported as skipped; `ORCHESTRA_REQUIRE_SMOLLM2=1` makes its absence a failure.
 */
export const smolLm2Path = process.env['ORCHESTRA_TEST_SMOLLM2'] ?? join(settingsFrom(process.env).modelsFolder, file);

const required = process.env['ORCHESTRA_REQUIRE_SMOLLM2'] === '1';

export const skipsSmolLm2 = !existsSync(smolLm2Path) && !required;
