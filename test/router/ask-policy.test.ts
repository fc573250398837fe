import { expect, test } from 'vitest';
import { createLedger } from '../../src/cost/ledger.ts';
import { zeroUsd } from '../../src/cost/money.ts';
import type { PriceBook } from '../../src/cost/price-book.ts';
import { freeRates } from '../../src/cost/rates.ts';
import { noUsage } from '../../src/cost/usage.ts';
import type { OrchestraError } from '../../src/errors.ts';
import { EngineFailure } from '../../src/inference/engine.ts';
import { builtInProfiles } from '../../src/preferences/profiles.ts';
import { mergePreferences } from '../../src/preferences/request.ts';
import { askPolicy, policyMeter } from '../../src/router/ask-policy.ts';
import { type Policy, PolicyFailure, type PolicyInput, type PolicyOpinion } from '../../src/router/policy.ts';
import { RunState } from '../../src/router/run-state.ts';
import { openStores } from '../store/opened.ts';
import { aSlot } from '../support/slots.ts';

const prices: PriceBook = new Map([[policyMeter, { rates: freeRates, label: 'policy', kind: 'policy' as const }]]);
const opinion = (...probabilities: number[]): PolicyOpinion => ({ probabilities, weighted: true, usage: noUsage });
const policyThat = (name: string, decide: () => Promise<PolicyOpinion>): Policy => ({
  name,
  backend: 'scripted',
  contract: 'slots-1',
  bound: noUsage,
  decide,
});

/** What becomes of a decision, with a fallback that takes the second of two slots. */
async function decidedBy(decide: () => Promise<PolicyOpinion>) {
  const { charges, close } = openStores();
  const signal = new AbortController().signal;
  const messages = [{ role: 'user' as const, content: 'Hi' }];
  const preferences = mergePreferences([], builtInProfiles, {});
  const state = new RunState(
    {
      runId: 'run_1',
      keyName: 'tester',
      requestedModel: 'orchestra',
      messages,
      needs: { input: ['text'], clientTools: false, jsonSchema: false, contextTokens: 1 },
      preferences,
      maxAnswerTokens: undefined,
      answerOptions: {},
      streaming: false,
      seed: 1,
      signal,
    },
    [],
    createLedger(charges, prices, Date.now).openBudget({
      runId: 'run_1',
      keyName: 'tester',
      maxCost: undefined,
      maxCostPerDay: undefined,
    }),
    0,
  );
  const candidates = ['answer-1', 'answer-2'].map((id) => ({
    ...{ id, role: 'answer' as const, slot: aSlot({ id }), delivers: undefined },
    ...{ expectedLatencyMs: 1, expectedCost: undefined },
  }));
  const input: PolicyInput = {
    ...{ problem: 'Hi', conversation: '', evidence: state.evidence, candidates },
    ...{
      weights: preferences.weights,
      statedWeights: [],
      instruction: undefined,
      turn: 1,
      turnsLeft: 1,
      timeLeftMs: 60_000,
      seed: 1,
    },
    ...{ askedBy: 'alice', privateTo: undefined, signal },
  };
  const logged: OrchestraError[] = [];
  const deciders = {
    policy: policyThat('first', decide),
    fallback: policyThat('second', async () => opinion(0, 1)),
    prices,
    onError: (error: OrchestraError) => logged.push(error),
  };
  const answer = await askPolicy(input, state, deciders, zeroUsd);
  close();
  return { answer, logged, told: state.warnings.map(({ message }) => message).join() };
}

test('what nobody foresaw is told in fixed words, and its cause to the log alone', async () => {
  const cause = new Error('sk-secret at http://10.0.0.1 with “the user’s words”');
  const { answer, logged, told } = await decidedBy(() => Promise.reject(cause));
  expect(answer.decidedBy).toBe('second');
  expect(told).toBe(
    'The policy first could not decide (an error inside the gateway; the log has the cause); second did.',
  );
  expect(logged).toMatchObject([{ code: 'policy_unavailable', cause }]);
});

test.each<[string, () => Promise<PolicyOpinion>]>([
  ['it said no', () => Promise.reject(new PolicyFailure('it said no', noUsage, false))],
  ['its probabilities do not add up', () => Promise.resolve(opinion(0.2, 0.2))],
])('that %s is told as it is', async (reason, decide) => {
  const { answer, logged, told } = await decidedBy(decide);
  expect(answer.decidedBy).toBe('second');
  expect(told).toBe(`The policy first could not decide (${reason}); second did.`);
  expect(logged).toEqual([]);
});

test('a failing engine is told by kind, and its cause to the log', async () => {
  const failure = new EngineFailure('crashed', 'secret words');
  const { logged, told } = await decidedBy(() => Promise.reject(failure));
  expect(told).toBe('The policy first could not decide (crashed); second did.');
  expect(logged).toMatchObject([{ cause: failure }]);
});
