import { expect, test } from 'vitest';
import { loadContract } from '../../src/contract/load.ts';
import { choiceSegments } from '../../src/contract/render.ts';
import { deliverCard, describeSlots, slotCard } from '../../src/contract/slot-card.ts';
import { type PriceText, ratesFrom } from '../../src/cost/rates.ts';

const contract = loadContract('slots-2');
const cardOf = (price: PriceText | undefined, latencyMs = 9000) =>
  slotCard(
    { id: 'answer-1', quality: ' good at math ', rates: price && ratesFrom(price), latencyMs, privacy: 'zdr' },
    contract,
  );

test.each([
  ['1.25', '$1.25'],
  ['10', '$10'],
  [0, '$0'],
  ['0.000000001', '$0.000000001'],
  ['0.80', '$0.8'],
  ['1234.5', '$1234.5'],
])('a price of %s is shown exactly, as %s', (input, shown) => {
  expect(cardOf({ input }).inputPrice).toBe(shown);
});

test('an unknown price is said to be unknown', () => {
  expect(cardOf(undefined)).toMatchObject({ inputPrice: 'unknown', outputPrice: 'unknown' });
});

test('latency is shown in whole seconds', () => {
  expect([499, 500, 9400, 96_000].map((latencyMs) => cardOf({}, latencyMs).latency)).toEqual(['0s', '1s', '9s', '96s']);
});

test('the sentence says what the slot is good at and where it runs', () => {
  expect(cardOf({}).sentence).toBe('answer-1: good at math. Runs at an outside provider that keeps no data.');
});

test('choices come as ids, sentences and a table', () => {
  const attempt = { id: 'attempt-1', slot: 'answer-1', text: '42' };
  expect(describeSlots([cardOf({ input: 1, output: 2 }), deliverCard(attempt, contract)], contract)).toBe(
    [
      "Choices: ['answer-1', 'attempt-1']. answer-1: good at math. Runs at an outside provider that keeps no data. attempt-1: Hands out this attempt as it stands.",
      'Model | price per million input tokens | price per million output tokens | average latency',
      'answer-1 | $1 | $2 | 9s',
      'attempt-1 | $0 | $0 | 0s',
    ].join('\n'),
  );
});

test('a choice of a role that the contract lacks is a mistake of the caller', () => {
  expect(() => choiceSegments('attempt', 'answer-1', loadContract('slots-1'))).toThrow(/slots-1 has no role attempt/);
});
