import { EngineFailure } from './engine.ts';

export type Schema = Readonly<Record<string, unknown>>;

/** @param path of the part in its schema, as in a reference. */
export function refuse(path: string, problem: string): never {
  throw new EngineFailure('invalid', `the JSON schema cannot be enforced at ${path}: ${problem}`);
}
