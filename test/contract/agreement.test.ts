import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { weighAgreement } from '../../src/contract/agreement.ts';

const prior = { levels: [0.5, 0.5], coincidence: 0.2 };
const good = [0.6, 0.9];
const poor = [0.3, 0.6];
const first = (values: readonly number[]): number => values[0] ?? Number.NaN;

describe('attempts are weighed by Bayes’ rule', () => {
  test('one attempt alone is as good as its writer', () => {
    expect(first(weighAgreement([[good]], prior).right)).toBeCloseTo(0.75, 12);
  });

  test('an equal second answer strengthens the first, a different one weakens it', () => {
    const alone = first(weighAgreement([[good]], prior).right);
    expect(first(weighAgreement([[good, poor]], prior).right)).toBeGreaterThan(alone);
    expect(first(weighAgreement([[good], [poor]], prior).right)).toBeLessThan(alone);
  });

  test('agreement makes the problem look easier, dissent harder', () => {
    const easy = (groups: (readonly number[])[][]) => weighAgreement(groups, prior).levels[1] ?? 0;
    expect(easy([[good, poor]])).toBeGreaterThan(0.5);
    expect(easy([[good], [poor]])).toBeLessThan(0.5);
  });

  test('two wrong answers that are likely to be equal prove less', () => {
    const support = (coincidence: number) => first(weighAgreement([[poor, poor]], { ...prior, coincidence }).right);
    expect(support(0.1)).toBeGreaterThan(support(0.6));
  });

  test('chances stay chances, whatever was tried', () => {
    const chance = fc.double({ min: 0.01, max: 0.99, noNaN: true });
    const member = fc.array(chance, { minLength: 2, maxLength: 2 });
    const groups = fc.array(fc.array(member, { minLength: 1, maxLength: 3 }), { maxLength: 3 });
    fc.assert(
      fc.property(groups, chance, (tried, coincidence) => {
        const { right, levels, likelihood } = weighAgreement(tried, { levels: [0.3, 0.7], coincidence });
        expect(likelihood).toBeGreaterThan(0);
        expect(right.reduce((sum, value) => sum + value, 0)).toBeLessThanOrEqual(1 + 1e-9);
        expect(levels.reduce((sum, value) => sum + value, 0)).toBeCloseTo(1, 9);
      }),
    );
  });
});
