import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type TiltFacts, type TiltScales, tilt } from '../../src/preferences/tilt.ts';
import type { Weights } from '../../src/preferences/weights.ts';

const scales: TiltScales = { lambda: 4, costUsd: 0.001, latencyMs: 2000 };
const weight = fc.double({ min: 0, max: 1, noNaN: true });
const weights: fc.Arbitrary<Weights> = fc.record({
  quality: weight,
  cost: weight,
  latency: weight,
  privacy: weight,
  tools: fc.constant({}),
});
const candidates = fc.array(
  fc.record({
    probability: fc.double({ min: 0.001, max: 1, noNaN: true }),
    costUsd: fc.double({ min: 0, max: 1, noNaN: true }),
    latencyMs: fc.double({ min: 0, max: 60_000, noNaN: true }),
    privacy: fc.double({ min: 0, max: 1, noNaN: true }),
    selectorWeight: fc.constant(0),
  }),
  { minLength: 2, maxLength: 8 },
);
const expectedOf = (facts: readonly TiltFacts[], p: readonly number[], value: (fact: TiltFacts) => number) =>
  facts.reduce((sum, fact, index) => sum + value(fact) * (p[index] ?? 0), 0);

test('all weight on quality leaves π unchanged', () => {
  fc.assert(
    fc.property(candidates, (facts) => {
      const tilted = tilt(facts, { quality: 1, cost: 0, latency: 0, privacy: 0, tools: {} }, scales);
      for (const [index, { probability }] of facts.entries()) expect(tilted[index]).toBeCloseTo(probability, 9);
    }),
  );
});

test('the mass of the role is kept', () => {
  fc.assert(
    fc.property(candidates, weights, (facts, w) => {
      const mass = facts.reduce((sum, { probability }) => sum + probability, 0);
      expect(tilt(facts, w, scales).reduce((a, b) => a + b, 0)).toBeCloseTo(mass, 9);
    }),
  );
});

test('raising the price of a slot never raises its chance', () => {
  fc.assert(
    fc.property(candidates, weights, fc.double({ min: 0, max: 5, noNaN: true }), (facts, w, more) => {
      const dearer = facts.map((fact, index) => (index === 0 ? { ...fact, costUsd: fact.costUsd + more } : fact));
      expect(tilt(dearer, w, scales)[0]).toBeLessThanOrEqual((tilt(facts, w, scales)[0] ?? 0) + 1e-12);
    }),
  );
});

const monotone: [keyof Weights, (fact: TiltFacts) => number][] = [
  ['cost', ({ costUsd }) => Math.log1p(costUsd / scales.costUsd)],
  ['latency', ({ latencyMs }) => Math.log1p(latencyMs / scales.latencyMs)],
  ['privacy', ({ privacy }) => -privacy],
];
test.each(monotone)('raising the weight of %s never raises what it weighs against', (key, value) => {
  fc.assert(
    fc.property(candidates, weights, weight, (facts, w, more) => {
      const current = w[key];
      const raised = { ...w, [key]: Math.min(1, (typeof current === 'number' ? current : 0) + more) };
      const before = expectedOf(facts, tilt(facts, w, scales), value);
      expect(expectedOf(facts, tilt(facts, raised, scales), value)).toBeLessThanOrEqual(before + 1e-9);
    }),
  );
});
