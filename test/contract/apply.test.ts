import { expect, test } from 'vitest';
import { applyObservation, deliverableAttempts } from '../../src/contract/apply.ts';
import { type Evidence, noEvidence, type Observation } from '../../src/contract/evidence.ts';
import { evidenceSchema, observationSchema } from '../../src/contract/evidence-schema.ts';
import { applyInputs } from './golden-inputs.ts';

const attempts = (...texts: string[]): Evidence =>
  texts.reduce(
    (known: Evidence, text) => applyObservation(known, { kind: 'attempt', slot: 'answer-1', text }),
    noEvidence,
  );

test('agreeing attempts are one choice, under the lowest number', () => {
  const known = attempts('\\boxed{7}', 'It is 8.', '7', 'eight: 8');
  expect(known.attempts.map(({ agreesWith }) => agreesWith)).toEqual([undefined, undefined, 'attempt-1', 'attempt-2']);
  expect(deliverableAttempts(known).map(({ id }) => id)).toEqual(['attempt-1', 'attempt-2']);
});

test('the evidence given is never changed', () => {
  const known = Object.freeze({
    documents: Object.freeze([]),
    codeRuns: Object.freeze([]),
    attempts: Object.freeze([]),
  });
  const observation: Observation = { kind: 'attempt', slot: 'answer-1', text: '42' };
  expect(applyObservation(known, observation).attempts).toHaveLength(1);
  expect(known.attempts).toHaveLength(0);
});

test.each(Object.entries(applyInputs))('input and result fit their schemas: %s', (_, { evidence, observation }) => {
  expect(observationSchema.parse(observation)).toEqual(observation);
  expect(evidenceSchema.parse(applyObservation(evidence, observation))).toBeDefined();
});

test('an unknown key in an observation is refused', () => {
  expect(observationSchema.safeParse({ kind: 'answer', text: '42', host: 'x' }).success).toBe(false);
});
