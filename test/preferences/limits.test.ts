import { describe, expect, test } from 'vitest';
import { ratesFrom } from '../../src/cost/rates.ts';
import { maskSlots, type Needs, tightenPrivacy } from '../../src/preferences/limits.ts';
import { builtInProfiles } from '../../src/preferences/profiles.ts';
import { mergePreferences } from '../../src/preferences/request.ts';
import type { RequestedPreferences } from '../../src/preferences/schema.ts';
import { checkSelector, matchesSelector } from '../../src/preferences/selectors.ts';
import { type Slot, sourceFacts } from '../../src/preferences/slot.ts';
import { aSlot } from '../support/slots.ts';

const plain: Needs = { input: ['text'], clientTools: false, jsonSchema: false, contextTokens: 10 };
const web = { name: 'tavily', upstream: 'web', privacy: 'any' } as const;
const docs = { name: 'docs', upstream: 'local', privacy: 'local' } as const;
const slots = [
  aSlot({ id: 'answer-1', privacy: 'no_training', regions: ['us'], model: 'openai/gpt-5', upstream: 'openai' }),
  aSlot({ id: 'answer-2', privacy: 'self_hosted', regions: ['eu'], clientTools: true, input: ['text', 'image'] }),
  aSlot({ id: 'answer-3', privacy: 'local', upstream: 'local', contextTokens: 100, rates: undefined }),
  aSlot({ id: 'search-1', role: 'search', ...sourceFacts([{ ...docs, privacy: 'any' }, web]) }),
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
    ['regions keep what is declared or local', { regions: ['eu'] }, {}, ['answer-2', 'answer-3', 'search-1']],
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

describe('a limit of money', () => {
  const free = ratesFrom({});
  const asked = (slot: Partial<Slot>, needs: Partial<Needs>) => {
    const effective = mergePreferences([], builtInProfiles, { max_cost_usd_per_day: 1 });
    return maskSlots([aSlot({ id: 'answer-1', ...slot })], effective, { ...plain, ...needs }).admissible.length === 1;
  };

  test.each<[string, Partial<Slot>, boolean]>([
    ['of known prices', {}, false],
    ["of somebody else's that is free", { rates: free }, false],
    ["of one's own that is free", { rates: free, privacy: 'self_hosted' }, true],
    ["of one's own with a price", { privacy: 'self_hosted' }, false],
  ])('lets a slot %s search for itself: %#', (_, slot, expected) => {
    expect(asked(slot, { unpriced: 'tools' })).toBe(expected);
  });

  test.each<[string, Partial<Slot>, boolean]>([
    ['whose window nobody knows', {}, false],
    ['whose window is known', { windowTokens: 8_192 }, true],
    ['whose tokens are free', { rates: free }, true],
  ])('lets a slot %s read files: %#', (_, slot, expected) => {
    expect(asked(slot, { unsized: 'messages' })).toBe(expected);
  });
});

describe('sources of a search slot', () => {
  const sourcesLeft = (search: Partial<Slot>, preferences: RequestedPreferences) => {
    const search1 = aSlot({ id: 'search-1', role: 'search', ...sourceFacts([docs, web]), ...search });
    const effective = mergePreferences([{ source: 'body', preferences }], builtInProfiles, {});
    const { admissible, applied } = maskSlots([...slots.slice(0, 3), search1], effective, plain);
    return { tools: admissible.find(({ id }) => id === 'search-1')?.tools ?? [], applied };
  };

  test.each<[string, RequestedPreferences, string[]]>([
    ['nothing is limited', {}, ['docs', 'tavily']],
    ['one is denied', { tools: { deny: ['tool:tavily'] } }, ['docs']],
    ['another slot is denied', { tools: { deny: ['answer-1'] } }, ['docs', 'tavily']],
    ['one is allowed', { tools: { allow: ['tool:tavily', 'answer'] } }, ['tavily']],
    ['the slot is allowed', { tools: { allow: ['role:search'] } }, ['docs', 'tavily']],
    ['the slot is allowed and one denied', { tools: { allow: ['search-1'], deny: ['tool:doc*'] } }, ['tavily']],
    ['all that lies outside is denied', { tools: { deny: ['upstream:web'] } }, ['docs']],
    ['a class is asked for', { privacy: 'local' }, ['docs']],
    ['regions are limited', { regions: ['eu'] }, ['docs']],
    ['the only one of the class is denied', { privacy: 'local', tools: { deny: ['tool:docs'] } }, []],
  ])('where %s', (_, preferences, expected) => {
    expect(sourcesLeft({}, preferences).tools).toEqual(expected);
  });

  test('are told when they go, each with the limit that took it', () => {
    const { applied } = sourcesLeft({}, { privacy: 'zdr', tools: { deny: ['tool:docs'] } });
    expect(applied).toMatchObject([
      { limit: 'privacy', narrowed: [{ slot: 'search-1', tool: 'tavily', reason: 'its class is any' }] },
      { limit: 'tools', removed: [{ slot: 'search-1', reason: 'denied by `tool:docs`' }] },
    ]);
    const denied = sourcesLeft({}, { tools: { deny: ['tool:docs'] } }).applied;
    expect(denied).toEqual([
      {
        limit: 'tools',
        value: { allow: [], deny: ['tool:docs'] },
        source: 'body',
        removed: [],
        narrowed: [{ slot: 'search-1', tool: 'docs', reason: 'denied by `tool:docs`' }],
      },
    ]);
  });

  test('leave the slot with the class of those that stay, once evidence tightens the run', () => {
    const [search1] = tightenPrivacy(
      [aSlot({ id: 's', role: 'search', ...sourceFacts([docs, web]) })],
      'zdr',
    ).admissible;
    expect(search1).toMatchObject({ tools: ['docs'], upstream: 'local', privacy: 'local' });
    const withoutDocs = aSlot({ id: 's', role: 'search', ...sourceFacts([web]) });
    expect(tightenPrivacy([withoutDocs], 'zdr')).toMatchObject({ admissible: [], applied: [{ source: 'evidence' }] });
  });

  test.each<[string, RequestedPreferences, string]>([
    ['region', { regions: ['eu'] }, 'its query writer answer-1: it may use us'],
    ['upstream', { tools: { deny: ['upstream:openai'] } }, 'its query writer answer-1: denied by `upstream:openai`'],
  ])('are no use where a limit on the %s forbids whoever writes the query', (_, preferences, reason) => {
    const { tools, applied } = sourcesLeft({ ...sourceFacts([docs]), writer: 'answer-1' }, preferences);
    expect(tools).toEqual([]);
    expect(applied[0]?.removed).toContainEqual({ slot: 'search-1', reason });
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
    expect(() => checkSelector('upstream:opnai', [slot], 'preferences.tools.deny.0')).toThrow(/upstream:openai/);
    expect(() => checkSelector('upstream:openai', [slot], 'preferences.tools.deny.0')).not.toThrow();
  });
});
