import { describe, expect, test } from 'vitest';
import { domainsNamed, noSkillCounts, skillIn, taughtChance } from '../../../src/router/policies/skills.ts';
import { aSlot } from '../../support/slots.ts';

describe('the skill of a slot', () => {
  const measured = aSlot({ id: 'answer-1', skills: { math: 0.9, law: 0.5 } });

  test('is what was measured, or the mean of it elsewhere', () => {
    expect(skillIn(measured, 'math', noSkillCounts)).toBe(0.9);
    expect(skillIn(measured, 'cooking', noSkillCounts)).toBe(0.7);
  });

  test('is read from words where nothing was measured', () => {
    const skill = (quality: string, domain = '') => skillIn(aSlot({ id: 'answer-1', quality }), domain, noSkillCounts);
    expect(skill('strongest general model')).toBeGreaterThan(skill('good general model'));
    expect(skill('good general model')).toBeGreaterThan(skill('very small local model'));
    expect(skill('strong at math', 'math')).toBeGreaterThan(skill('strong at math', 'law'));
  });

  test('moves with feedback, slowly where it was measured and fast where it was only said', () => {
    const counts = { find: () => ({ right: 0, wrong: 10 }) };
    const said = aSlot({ id: 'answer-2', quality: 'strongest general model' });
    expect(skillIn(measured, 'math', counts)).toBeCloseTo((30 * 0.9) / 40, 12);
    expect(skillIn(said, 'math', counts)).toBeCloseTo((6 * 0.9) / 16, 12);
  });

  test('moves what was read off a problem, by the domains that the problem is of', () => {
    const counts = { find: (_: string, domain: string) => (domain === 'math' ? { right: 30, wrong: 0 } : undefined) };
    const chance = (...domains: [string, number][]) => taughtChance(0.5, measured, new Map(domains), counts);
    expect(chance()).toBeCloseTo(0.5, 12);
    expect(chance(['law', 1])).toBeCloseTo(0.5, 12);
    expect(chance(['math', 1])).toBeCloseTo(0.75, 12);
    expect(chance(['math', 0.5], ['law', 0.25])).toBeCloseTo(0.625, 12);
  });

  test('names the domains of all cards once', () => {
    const others = [aSlot({ id: 'answer-2', skills: { math: 1 } }), aSlot({ id: 'answer-3', quality: 'good at code' })];
    expect(domainsNamed([measured, ...others])).toEqual(['math', 'law', 'code']);
  });
});
