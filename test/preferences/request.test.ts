import { describe, expect, test } from 'vitest';
import { OrchestraError } from '../../src/errors.ts';
import { builtInProfiles } from '../../src/preferences/profiles.ts';
import { mergePreferences, type PreferenceLayer, parsePreferences } from '../../src/preferences/request.ts';
import type { Ceiling, RequestedPreferences } from '../../src/preferences/schema.ts';

function refusal(action: () => unknown): OrchestraError {
  try {
    action();
  } catch (error) {
    if (error instanceof OrchestraError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

const body = (preferences: RequestedPreferences): PreferenceLayer => ({ source: 'body', preferences });
const header = (preferences: RequestedPreferences): PreferenceLayer => ({ source: 'header', preferences });
const merge = (layers: readonly PreferenceLayer[], ceiling: Ceiling = {}) =>
  mergePreferences(layers, builtInProfiles, ceiling);

describe('parsing', () => {
  test.each([
    [{ max_cost: 1 }, 'preferences.max_cost', 'max_cost_usd'],
    [{ wieghts: {} }, 'preferences.wieghts', 'weights'],
    [{ weights: { qualty: 1 } }, 'preferences.weights.qualty', 'quality'],
    [{ tools: { alow: [] } }, 'preferences.tools.alow', 'allow'],
  ])('names the path and the nearest key for %j', (value, param, near) => {
    const error = refusal(() => parsePreferences(value, 'preferences'));
    expect(error).toMatchObject({ code: 'invalid_request', param });
    expect(error.message).toContain(`\`${near}\``);
  });

  test('lists the valid keys when none is near', () => {
    expect(refusal(() => parsePreferences({ zzzzzzzz: 1 }, 'preferences')).message).toContain('max_cost_usd');
  });

  test.each([
    [{ max_cost_usd: '1' }, 'preferences.max_cost_usd'],
    [{ max_cost_usd: -1 }, 'preferences.max_cost_usd'],
    [{ max_turns: 1.5 }, 'preferences.max_turns'],
    [{ weights: { cost: 2 } }, 'preferences.weights.cost'],
    [
      { weights: { tools: Object.fromEntries(Array.from({ length: 65 }, (_, n) => [`a-${n}`, 1])) } },
      'preferences.weights.tools',
    ],
    [{ weights: { tools: { ['*'.repeat(201)]: 1 } } }, `preferences.weights.tools.${'*'.repeat(64)}`],
    [{ privacy: 'secret' }, 'preferences.privacy'],
    [{ regions: [] }, 'preferences.regions'],
    [{ instruction: 'x'.repeat(501) }, 'preferences.instruction'],
    ['cheap', 'preferences'],
  ])('refuses %j', (value, param) => {
    expect(refusal(() => parsePreferences(value, 'preferences'))).toMatchObject({ code: 'invalid_request', param });
  });
});

test('a key as long as a body is refused without being compared or repeated', () => {
  const { message } = refusal(() => parsePreferences({ ['k'.repeat(20_000_000)]: 1 }, 'preferences'));
  expect(message.length).toBeLessThan(500);
});

describe('profiles of the operator', () => {
  const profiles = {
    ...builtInProfiles,
    careful: { optimize: 'quality', max_cost_usd: 0.25 },
    stricter: { optimize: 'careful', max_cost_usd: 0.5, privacy: 'zdr' },
    capped: { max_turns: 2 },
    balanced: { optimize: 'balanced', max_turns: 3 },
  } as const;
  const named = (optimize: string) => mergePreferences([body({ optimize })], profiles, {});

  test('build on each other: weights of the nearest, the strictest limit of all', () => {
    expect(named('careful')).toMatchObject({
      profile: 'careful',
      weights: { quality: 1, cost: 0, latency: 0 },
      limits: { maxCost: 250_000_000 },
    });
    expect(named('stricter')).toMatchObject({
      weights: { quality: 1, cost: 0, latency: 0 },
      limits: { maxCost: 250_000_000, privacy: 'zdr' },
    });
  });

  test.each([
    ['capped', 2],
    ['balanced', 3],
  ])('%s, which sets a limit alone, weighs as nobody would have said anything', (name, maxTurns) => {
    expect(named(name)).toMatchObject({
      weights: { quality: 0.5, cost: 0.25, latency: 0.25 },
      statedWeights: [],
      limits: { maxTurns },
    });
  });
});

describe('merging', () => {
  test('is balanced when nothing is said', () => {
    expect(merge([])).toMatchObject({
      profile: 'balanced',
      weights: { quality: 0.5, cost: 0.25, latency: 0.25, privacy: 0 },
    });
  });

  test('lets the body decide over the header, weight by weight', () => {
    const { weights } = merge([body({ weights: { cost: 1 } }), header({ optimize: 'fast' })]);
    expect(weights).toMatchObject({ quality: 0.2, cost: 1, latency: 0.8 });
  });

  test('knows which weights the request itself put in numbers', () => {
    const { statedWeights } = merge([body({ optimize: 'fast', weights: { cost: 1, privacy: 0 } })]);
    expect(statedWeights).toEqual(['cost', 'privacy']);
    expect(merge([body({ optimize: 'best' }), header({ weights: { cost: 1 } })]).statedWeights).toEqual([]);
    const byDefault = { source: 'default' as const, preferences: { weights: { cost: 1 } } };
    expect(merge([body({ weights: { latency: 0 } }), byDefault]).statedWeights).toEqual(['latency']);
  });

  test('lets a profile named by the body decide over weights of the header', () => {
    expect(merge([body({ optimize: 'best' }), header({ weights: { cost: 1 } })]).weights).toMatchObject({
      quality: 1,
      cost: 0,
    });
  });

  test('takes the strictest of every limit and names its source', () => {
    const { limits, sources } = merge(
      [body({ max_cost_usd: 0.5, max_turns: 3, privacy: 'zdr' }), header({ optimize: 'local', max_turns: 5 })],
      { max_cost_usd: 0.05, max_cost_usd_per_day: 2, privacy: 'no_training' },
    );
    const money = { maxCost: 50_000_000, maxCostPerDay: 2_000_000_000 };
    expect(limits).toMatchObject({ ...money, maxTurns: 3, privacy: 'local' });
    const moneyFrom = { max_cost_usd: 'key', max_cost_usd_per_day: 'key' };
    expect(sources).toMatchObject({ ...moneyFrom, max_turns: 'body', privacy: 'profile' });
  });

  test('intersects regions, keeps every allow list and adds up denials', () => {
    const { limits } = merge(
      [body({ regions: ['eu', 'us'], tools: { allow: ['role:answer'], deny: ['slot:answer-1'] } })],
      { regions: ['eu', 'ch'], tools: { allow: ['upstream:vllm'], deny: ['tool:tavily'] } },
    );
    expect(limits).toMatchObject({
      regions: ['eu'],
      allow: [['upstream:vllm'], ['role:answer']],
      deny: ['tool:tavily', 'slot:answer-1'],
    });
  });

  test('refuses an unknown profile with the nearest one', () => {
    const error = refusal(() => merge([body({ optimize: 'balancd' })]));
    expect(error).toMatchObject({ code: 'invalid_request', param: 'preferences.optimize' });
    expect(error.message).toContain('`balanced`');
  });

  test('does not take a key of Object for a profile', () => {
    expect(refusal(() => merge([body({ optimize: 'constructor' })])).code).toBe('invalid_request');
  });
});
