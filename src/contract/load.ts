import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type BeliefsContract,
  beliefTextsSchema,
  type Contract,
  type ContractName,
  roleTextsSchema,
  sharedTextsSchema,
} from './schema.ts';

/** Beside the sources and beside the build alike: `models/contract` at the root of the project. */
export const contractFolder = fileURLToPath(new URL('../../models/contract', import.meta.url));

/** Reads and checks one contract. Call it once, at start: it touches the disk. */
export const loadContract = (name: ContractName, folder: string = contractFolder): Contract =>
  withShared(roleTextsSchema.parse(read(folder, `${name}.json`)), folder);

/** The same of `beliefs-1`. */
export const loadBeliefs = (folder: string = contractFolder): BeliefsContract =>
  withShared(beliefTextsSchema.parse(read(folder, 'beliefs-1.json')), folder);

const withShared = <Own extends object>(own: Own, folder: string) =>
  deepFreeze({ ...sharedTextsSchema.parse(read(folder, 'contract.json')), ...own, hash: contractHash(folder) });

const read = (folder: string, file: string): unknown => JSON.parse(readFileSync(join(folder, file), 'utf8'));

/** SHA-256 over every JSON file at the top of the folder, in name order: `NAME NUL LENGTH NUL BYTES` each. */
export function contractHash(folder: string = contractFolder): string {
  const files = readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .sort();
  const hash = createHash('sha256');
  for (const file of files) {
    const bytes = readFileSync(join(folder, file));
    hash.update(`${file}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest('hex');
}

function deepFreeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null) deepFreeze(inner);
  }
  return Object.freeze(value);
}
