import { expect, test } from 'vitest';
import { otherContractNote } from '../../src/assembly/policy.ts';

const [one, other] = ['a1'.repeat(32), 'b2'.repeat(32)];

test('weights that were trained with another contract are named when they are opened', () => {
  expect(otherContractNote(one, other)).toMatch(/WARNING.*a1a1a1a1a1a1.*b2b2b2b2b2b2.*trained again/);
});

test('nothing is said of weights that fit, or that do not say', () => {
  expect(otherContractNote(one, one)).toBe('');
  expect(otherContractNote(undefined, one)).toBe('');
});
