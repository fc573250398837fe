import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { configSchema } from '../src/assembly/config.ts';
import { decisionSchema, evidenceSchema, observationSchema } from '../src/contract/evidence-schema.ts';
import { contractFolder } from '../src/contract/load.ts';
import { beliefTextsSchema, roleTextsSchema, sharedTextsSchema } from '../src/contract/schema.ts';

/**
 * Writes the JSON Schemas of the contract and of `orchestra.yaml` from their zod source, for the trainer and for
 * editors. With --check it writes nothing and fails when a file differs from its source.
 */

const contractSchemas = {
  contract: sharedTextsSchema,
  'role-texts': roleTextsSchema,
  'belief-texts': beliefTextsSchema,
  evidence: evidenceSchema,
  observation: observationSchema,
  decision: decisionSchema,
};

const { values } = parseArgs({
  options: {
    check: { type: 'boolean', default: false },
    folder: { type: 'string', default: join(contractFolder, 'schemas') },
    config: {
      type: 'string',
      default: fileURLToPath(new URL('../docs/orchestra.schema.json', import.meta.url)),
    },
  },
});

const textOf = (schema: object): string => `${JSON.stringify(schema, null, 2)}\n`;

const generated = [
  ...Object.entries(contractSchemas).map(([name, schema]) => ({
    path: join(values.folder, `${name}.schema.json`),
    text: textOf(z.toJSONSchema(schema)),
  })),
  // What a person writes: everything with a default may be left out.
  { path: values.config, text: textOf(z.toJSONSchema(configSchema, { io: 'input' })) },
];

if (values.check) {
  const stale = generated.filter(({ path, text }) => !existsSync(path) || readFileSync(path, 'utf8') !== text);
  for (const { path } of stale) console.error(`${path} differs from its source; run \`npm run contract\``);
  if (stale.length > 0) process.exitCode = 1;
  else console.log(`${generated.length} schemas match their source`);
} else {
  for (const { path, text } of generated) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  console.log(`${generated.length} schemas written`);
}
