import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type CudaFacts, cudaFacts, cudaProblem } from '../../src/inference/cuda-problem.ts';

const driver = 'libcuda.so.1';
const runtime = (major: number) => [`libcudart.so.${major}`, `libcublas.so.${major}`];
const facts = (libraries: readonly string[], changes: Partial<CudaFacts> = {}): CudaFacts => ({
  engines: [13, 12],
  hasDevice: true,
  libraries: new Set(libraries),
  ...changes,
});

test.each([
  ['no engine', facts([driver, ...runtime(13)], { engines: [] }), 'reinstall with optional packages'],
  ['no device', facts([driver, ...runtime(13)], { hasDevice: false }), 'there is no NVIDIA device'],
  ['no driver', facts(runtime(13)), 'libcuda.so.1 is not found'],
  ['no runtime', facts([driver]), '13 or 12 are missing (libcudart.so.13, libcublas.so.13)'],
  ['half a runtime', facts([driver, 'libcudart.so.12']), '13 or 12 are missing (libcublas.so.12)'],
  ['an old runtime', facts([driver, ...runtime(11)]), 'the CUDA runtime here is 11, but the engine needs 13 or 12'],
  ['one engine less', facts([driver, ...runtime(12)], { engines: [13] }), 'here is 12, but the engine needs 13'],
  ['all of it', facts([driver, ...runtime(12)]), 'the driver may be too old'],
])('with %s it is said what is missing', (_, found, message) => {
  expect(cudaProblem(found)).toContain(message);
});

test('libraries are found where the loader is told to look', () => {
  const folder = mkdtempSync(join(tmpdir(), 'orchestra-cuda-'));
  writeFileSync(join(folder, 'libcudart.so.99'), '');
  expect(cudaFacts(`/nowhere:${folder}`).libraries.has('libcudart.so.99')).toBe(true);
  expect(cudaFacts('').libraries.has('libcudart.so.99')).toBe(false);
  expect(cudaFacts('').libraries.has('libc.so.6')).toBe(true);
  rmSync(folder, { recursive: true });
});

test('what is no readable folder in the library path is passed over', () => {
  const folder = mkdtempSync(join(tmpdir(), 'orchestra-cuda-'));
  const file = join(folder, 'libcudart.so.99');
  const closed = join(folder, 'closed');
  writeFileSync(file, '');
  mkdirSync(closed, { mode: 0o000 });
  const { libraries } = cudaFacts([file, closed, `${file}/below`, 'a\0b', folder].join(':'));
  expect(libraries.has('libcudart.so.99')).toBe(true);
  chmodSync(closed, 0o700);
  rmSync(folder, { recursive: true });
});
