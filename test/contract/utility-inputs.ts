import type { SearchState, UtilityOption } from '../../src/contract/expected-utility.ts';

export interface UtilityVector {
  readonly options: readonly UtilityOption[];
  readonly state: SearchState;
  readonly weights: {
    readonly quality: number;
    readonly cost: number;
    readonly latency: number;
    readonly privacy: number;
  };
  readonly temperature: number;
}

const price = (id: string, costUsd: number, latencyMs: number, privacy = 0, selectorWeight = 0) => ({
  id,
  costUsd,
  latencyMs,
  privacy,
  selectorWeight,
});
const answer = (facts: ReturnType<typeof price>, chances: readonly number[]): UtilityOption => ({
  ...facts,
  kind: 'answer',
  chances,
});
const attempt = (facts: ReturnType<typeof price>, chances: readonly number[]): UtilityOption => ({
  ...facts,
  kind: 'attempt',
  chances,
});

const small = price('answer-1', 0.0001, 900, 1);
const middle = price('answer-2', 0.0008, 2500, 0.75);
const large = price('answer-3', 0.009, 6000, 0, 0.3);
const skills = { small: [0.2, 0.6, 0.9], middle: [0.35, 0.75, 0.95], large: [0.6, 0.88, 0.98] };
const answers = [answer(small, skills.small), answer(middle, skills.middle), answer(large, skills.large)];
const attempts = [attempt(small, skills.small), attempt(middle, skills.middle), attempt(large, skills.large)];
const prior = { levels: [0.25, 0.5, 0.25], coincidence: 0.2 };
const first: SearchState = { prior, attempts: [], comparable: 0.8, turnsLeft: 8, attemptsLeft: 4 };
const balanced = { quality: 0.5, cost: 0.25, latency: 0.25, privacy: 0 };
const thrifty = { quality: 1, cost: 0.1, latency: 0, privacy: 0.1 };
const deliver = (id: string): UtilityOption => ({ ...price(id, 0, 0), kind: 'deliver' });
const made = (id: string, slot: string, chances: readonly number[], agreesWith?: string, comparable = true) => ({
  id,
  slot,
  chances,
  agreesWith,
  comparable,
});

export const utilityInputs: Readonly<Record<string, UtilityVector>> = {
  'answers alone': { options: answers, state: first, weights: balanced, temperature: 0.25 },
  'answers and attempts': { options: [...answers, ...attempts], state: first, weights: thrifty, temperature: 0.25 },
  'nothing can be compared': {
    options: [...answers, ...attempts],
    state: { ...first, comparable: 0 },
    weights: thrifty,
    temperature: 0.25,
  },
  'a search and a calculation': {
    options: [
      ...answers,
      { ...price('search-1', 0, 300), kind: 'prepare', gain: 1.3 },
      { ...price('reasoner-1', 0.0005, 4000), kind: 'prepare', gain: 1.05 },
    ],
    state: first,
    weights: balanced,
    temperature: 0.25,
  },
  'one attempt made': {
    options: [...answers, ...attempts, deliver('attempt-1')],
    state: { ...first, attempts: [made('attempt-1', 'answer-1', skills.small)], turnsLeft: 7, attemptsLeft: 3 },
    weights: thrifty,
    temperature: 0.25,
  },
  'two that agree': {
    options: [...answers, ...attempts, deliver('attempt-1')],
    state: {
      ...first,
      attempts: [
        made('attempt-1', 'answer-1', skills.small),
        made('attempt-2', 'answer-2', skills.middle, 'attempt-1'),
      ],
      turnsLeft: 6,
      attemptsLeft: 2,
    },
    weights: thrifty,
    temperature: 0.25,
  },
  'two that differ and one that cannot be told': {
    options: [...answers, ...attempts, deliver('attempt-1'), deliver('attempt-2'), deliver('attempt-3')],
    state: {
      ...first,
      attempts: [
        made('attempt-1', 'answer-1', skills.small),
        made('attempt-2', 'answer-2', skills.middle),
        made('attempt-3', 'answer-3', skills.large, undefined, false),
      ],
      turnsLeft: 5,
      attemptsLeft: 1,
    },
    weights: thrifty,
    temperature: 0.25,
  },
  'the last turn': {
    options: [...answers, ...attempts],
    state: { ...first, turnsLeft: 1 },
    weights: balanced,
    temperature: 0.1,
  },
  'only cost': {
    options: [...answers, ...attempts],
    state: first,
    weights: { quality: 0, cost: 1, latency: 0, privacy: 0 },
    temperature: 0.25,
  },
};
