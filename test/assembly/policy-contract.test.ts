import { expect, test } from 'vitest';
import { contractToServe, otherContractNote } from '../../src/assembly/policy-contract.ts';

const [one, other] = ['a1'.repeat(32), 'b2'.repeat(32)];

test('weights that were trained with another contract are named when they are opened', () => {
  expect(otherContractNote(one, other)).toMatch(/WARNING.*a1a1a1a1a1a1.*b2b2b2b2b2b2.*trained again/);
});

test('nothing is said of weights that fit, or that do not say', () => {
  expect(otherContractNote(one, one)).toBe('');
  expect(otherContractNote(undefined, one)).toBe('');
});

test.each([
  ['what they say', { trainedWith: { name: 'beliefs-1' }, catalogued: 'slots-1' as const }, { name: 'beliefs-1' }],
  ['what the catalogue says', { catalogued: 'slots-2' as const }, { name: 'slots-2' }],
  ['what is written, where nothing says it', { written: 'beliefs-1' as const }, { name: 'beliefs-1' }],
  ['the usual one, of weights of others', {}, { name: 'slots-1' }],
])('weights are served under %s', (_, sources, expected) => {
  expect(
    contractToServe({ weights: 'w', written: undefined, catalogued: undefined, trainedWith: {}, ...sources }),
  ).toEqual(expected);
});

test.each([
  [
    'contradicts the weights',
    { trainedWith: { name: 'slots-2' }, written: 'slots-1' as const },
    'w speaks slots-2: leave it out',
  ],
  ['nobody here knows', { trainedWith: { name: 'slots-9' } }, 'w speaks slots-9, which this gateway does not know'],
  [
    'weights of ours do not name',
    { trainedWith: { hash: one } },
    'w does not say which contract it was trained with: write one of',
  ],
])('a contract that %s is refused', (_, sources, expected) => {
  const found = contractToServe({ weights: 'w', written: undefined, catalogued: undefined, ...sources });
  expect(found).toMatchObject({ mistake: expect.stringContaining(expected) });
});
