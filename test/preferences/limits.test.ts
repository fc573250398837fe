import { describe, expect, test } from 'vitest';
import { admitsTool, maskSlots, type Needs } from '../../src/preferences/limits.ts';
import { builtInProfiles } from '../../src/preferences/profiles.ts';
import { mergePreferences } from '../../src/preferences/request.ts';
import type { RequestedPreferences } from '../../src/preferences/schema.ts';
import { checkSelectors, matchesSelector } from '../../src/preferences/selectors.ts';
import { aSlot } from '../support/slots.ts';

const plain: Needs = { input: ['text'], clientTools: false, jsonSchema: false, contextTokens: 10 };
const slots = [
  aSlot({ id: 'answer-1', privacy: 'no_training', regions: ['us'], model: 'openai/gpt-5', upstream: 'openai' }),
  aSlot({ id: 'answer-2', privacy: 'self_hosted', regions: ['eu'], clientTools: true, input: ['text', 'image'] }),
  aSlot({ id: 'answer-3', privacy: 'local', upstream: 'local', contextTokens: 100, rates: undefined }),
  aSlot({ id: 'search-1', role: 'search', privacy: 'any', tools: ['docs', 'tavily'] }),
];
const mask = (preferences: RequestedPreferences, needs: Partial<Needs> = {}) => {
  const effective = mergePreferences([{ source: 'body', preferences }], builtInProfiles, {});
  return maskSlots(slots, effective, { ...plain, ...needs });
};
const left = (...args: Parameters<typeof mask>) => mask(...args).admissible.map(({ id }) => id);

describe('hard limits', () => {
  test('remove nothing when nothing is limited', () => {
    expect(mask({})).toEqual({ admissible: slots, applied: [] });
  });

  test('privacy removes every weaker class and says so', () => {
    const { admissible, applied } = mask({ privacy: 'self_hosted' });
    expect(admissible.map(({ id }) => id)).toEqual(['answer-2', 'answer-3']);
    expect(applied).toEqual([
      {
        limit: 'privacy',
        value: 'self_hosted',
        source: 'body',
        removed: [
          { slot: 'answer-1', reason: 'its class is no_training' },
          { slot: 'search-1', reason: 'its class is any' },
        ],
      },
    ]);
  });

  test.each<[string, RequestedPreferences, Partial<Needs>, string[]]>([
    ['regions keep declared regions and local slots only', { regions: ['eu'] }, {}, ['answer-2', 'answer-3']],
    [
      'deny leaves a search slot its other sources',
      { tools: { deny: ['tool:tavily'] } },
      {},
      ['answer-1', 'answer-2', 'answer-3', 'search-1'],
    ],
    [
      'deny of its last source removes a search slot',
      { tools: { deny: ['tool:tavily', 'tool:docs'] } },
      {},
      ['answer-1', 'answer-2', 'answer-3'],
    ],
    ['deny removes a whole search slot by its id', { tools: { deny: ['search-1', 'answer'] } }, {}, []],
    ['allow keeps a search slot by one source', { tools: { allow: ['tool:docs'] } }, {}, ['search-1']],
    ['allow keeps by model with a wildcard', { tools: { allow: ['model:openai/*'] } }, {}, ['answer-1']],
    ['a cost limit removes unknown prices', { max_cost_usd: 1 }, {}, ['answer-1', 'answer-2', 'search-1']],
    ['images need a slot that sees', {}, { input: ['text', 'image'] }, ['answer-2', 'search-1']],
    ['client tools need a slot that calls them', {}, { clientTools: true }, ['answer-2', 'search-1']],
    ['a long conversation needs the context', {}, { contextTokens: 100 }, ['answer-1', 'answer-2', 'search-1']],
  ])('%s', (_, preferences, needs, expected) => {
    expect(left(preferences, needs)).toEqual(expected);
  });
});

describe('sources of a search slot', () => {
  const open = (tools: RequestedPreferences['tools']) => {
    const { limits } = mergePreferences([{ source: 'body', preferences: { tools } }], builtInProfiles, {});
    return slots.slice(3).flatMap((slot) => slot.tools.filter((tool) => admitsTool(tool, slot, limits)));
  };

  test.each([
    ['nothing is limited', {}, ['docs', 'tavily']],
    ['one is denied', { deny: ['tool:tavily'] }, ['docs']],
    ['another slot is denied', { deny: ['answer-1'] }, ['docs', 'tavily']],
    ['one is allowed', { allow: ['tool:tavily', 'answer'] }, ['tavily']],
    ['the slot is allowed', { allow: ['role:search'] }, ['docs', 'tavily']],
    ['the slot is allowed and one denied', { allow: ['search-1'], deny: ['tool:doc*'] }, ['tavily']],
  ])('where %s', (_, tools, expected) => {
    expect(open(tools)).toEqual(expected);
  });
});

describe('selectors', () => {
  const slot = aSlot({ id: 'answer-1', model: 'openai/gpt-5', upstream: 'openai', tools: ['docs'] });

  test.each([
    ['answer-1', true],
    ['answer', true],
    ['*', true],
    ['slot:answer-*', true],
    ['model:openai/*', true],
    ['model:*5', true],
    ['model:*gpt*5', true],
    ['model:gpt', false],
    ['upstream:openai', true],
    ['tool:docs', true],
    ['role:search', false],
    ['slot:answer-11', false],
  ])('%s matches: %s', (selector, expected) => {
    expect(matchesSelector(slot, selector)).toBe(expected);
  });

  test('one that matches nothing is refused with the nearest word', () => {
    expect(() => checkSelectors(['upstream:opnai'], [slot], 'preferences.tools.deny')).toThrow(/upstream:openai/);
    expect(() => checkSelectors(['upstream:openai'], [slot], 'preferences.tools.deny')).not.toThrow();
  });
});
