import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Contract, type ContractName, roleTextsSchema, sharedTextsSchema } from './schema.ts';

/** Beside the sources and beside the build alike: `models/contract` at the root of the project. */
export const contractFolder = fileURLToPath(new URL('../../models/contract', import.meta.url));

/** Reads and checks one contract. Call it once, at start: it touches the disk. */
export function loadContract(name: ContractName, folder: string = contractFolder): Contract {
  const read = (file: string): unknown => JSON.parse(readFileSync(join(folder, file), 'utf8'));
  return deepFreeze({
    ...sharedTextsSchema.parse(read('contract.json')),
    ...roleTextsSchema.parse(read(`${name}.json`)),
    hash: contractHash(folder),
  });
}

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
