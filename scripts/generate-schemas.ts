import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { decisionSchema, evidenceSchema, observationSchema } from '../src/contract/evidence-schema.ts';
import { contractFolder } from '../src/contract/load.ts';
import { roleTextsSchema, sharedTextsSchema } from '../src/contract/schema.ts';

/**
 * Writes the JSON Schemas of the contract from their zod source, for the trainer and for editors.
 * With --check it writes nothing and fails when a file differs from its source.
 */

const schemas = {
  contract: sharedTextsSchema,
  'role-texts': roleTextsSchema,
  evidence: evidenceSchema,
  observation: observationSchema,
  decision: decisionSchema,
};

const { values } = parseArgs({
  options: {
    check: { type: 'boolean', default: false },
    folder: { type: 'string', default: join(contractFolder, 'schemas') },
  },
});

const generated = Object.entries(schemas).map(([name, schema]) => ({
  path: join(values.folder, `${name}.schema.json`),
  text: `${JSON.stringify(z.toJSONSchema(schema), null, 2)}\n`,
}));

if (generated.length === 0) throw new Error('no schema to compare');

if (values.check) {
  const stale = generated.filter(({ path, text }) => !existsSync(path) || readFileSync(path, 'utf8') !== text);
  for (const { path } of stale) console.error(`${path} differs from its source; run \`npm run contract\``);
  if (stale.length > 0) process.exitCode = 1;
  else console.log(`${generated.length} schemas match their source`);
} else {
  mkdirSync(values.folder, { recursive: true });
  for (const { path, text } of generated) writeFileSync(path, text);
  console.log(`${generated.length} schemas written`);
}
