import { expect, test } from 'vitest';
import { usualSnapshotBytes } from '../../src/inference/memory-plan.ts';

const mebibyte = 2 ** 20;
const gibibyte = 2 ** 30;

test('copies get twice the room of the sequences, and a single one leaves room for its whole context in one copy', () => {
  expect(usualSnapshotBytes(64 * mebibyte, 3, 100 * gibibyte)).toBe(384 * mebibyte);
  expect(usualSnapshotBytes(64 * mebibyte, 1, 100 * gibibyte)).toBe(256 * mebibyte);
});

test('copies never take more than 4 GiB, nor more than a quarter of what is left', () => {
  expect(usualSnapshotBytes(gibibyte, 8, 100 * gibibyte)).toBe(4 * gibibyte);
  expect(usualSnapshotBytes(64 * mebibyte, 3, 200 * mebibyte)).toBe(50 * mebibyte);
  expect(usualSnapshotBytes(64 * mebibyte, 3, 0)).toBe(0);
});
