import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { contractFolder, contractHash, loadBeliefs, loadContract } from '../../src/contract/load.ts';

function copyOfContract(): string {
  const folder = mkdtempSync(join(tmpdir(), 'orchestra-contract-'));
  cpSync(contractFolder, folder, { recursive: true });
  return folder;
}

function edit(folder: string, file: string, from: string, to: string): void {
  const path = join(folder, file);
  writeFileSync(path, readFileSync(path, 'utf8').replace(from, to));
}

test('a loaded contract is frozen all the way down', () => {
  const contract = loadContract('slots-1');
  expect(Object.isFrozen(contract)).toBe(true);
  expect(Object.isFrozen(contract.functions[0]?.tool.function.parameters.required)).toBe(true);
});

test('only slots-2 knows attempts, and both share everything else', () => {
  const [one, two] = [loadContract('slots-1'), loadContract('slots-2')];
  expect(one.functions.map(({ role }) => role)).toEqual(['enhance_reasoning', 'answer', 'search']);
  expect(two.functions.map(({ role }) => role)).toEqual(['enhance_reasoning', 'attempt', 'answer', 'search']);
  expect(two.budgets).toEqual(one.budgets);
  expect(two.hash).toBe(one.hash);
});

test('the hash changes with any byte of any file', () => {
  const folder = copyOfContract();
  expect(contractHash(folder)).toBe(contractHash());
  edit(folder, 'slots-2.json', 'Pick', 'pick');
  expect(contractHash(folder)).not.toBe(contractHash());
});

test('beliefs-1 shares texts and hash with the others, and its tables must rise', () => {
  const beliefs = loadBeliefs();
  expect(beliefs.labels).toEqual(loadContract('slots-2').labels);
  expect(beliefs.hash).toBe(contractHash());
  const folder = copyOfContract();
  edit(folder, 'beliefs-1.json', '[0.1, 0.3', '[0.3, 0.1');
  expect(() => loadBeliefs(folder)).toThrow(/chances/);
});

test('an unknown key is refused', () => {
  const folder = copyOfContract();
  edit(folder, 'contract.json', '"version"', '"verison": 1, "version"');
  expect(() => loadContract('slots-1', folder)).toThrow(/verison/);
});

const generate = (...options: string[]) =>
  spawnSync(process.execPath, ['--import', 'tsx', 'scripts/generate-schemas.ts', ...options], { encoding: 'utf8' });

test('the stored schemas match their source', () => {
  expect(generate('--check')).toMatchObject({ status: 0, stdout: expect.stringMatching(/^[1-9]\d* schemas match/) });
});

test('a schema that differs is named and fails the check', () => {
  const folder = join(copyOfContract(), 'schemas');
  edit(folder, 'decision.schema.json', 'malformed', 'misformed');
  const { status, stderr } = generate('--check', '--folder', folder);
  expect(status).toBe(1);
  expect(stderr).toMatch(/decision\.schema\.json differs/);
  expect(stderr).not.toMatch(/evidence\.schema\.json/);
});
