import {
  cardBranch,
  expectedOf,
  gradeSegments,
  type JudgedProblem,
  problemPrefix,
  spreadOverLevels,
  wishBranches,
  wishPrefix,
  wishWeights,
} from '../../src/contract/beliefs.ts';
import type { BeliefsContract, ContractRole } from '../../src/contract/schema.ts';
import { cjk, document, family, full, halves, long, markers, nothing } from './golden-inputs.ts';

/** Inputs of test/golden/beliefs.json, and what is made of them. */

export type BeliefsVector =
  | ({ readonly part: 'prefix' } & JudgedProblem)
  | {
      readonly part: 'card';
      readonly quality: string;
      readonly skills: Readonly<Record<string, number>>;
      readonly role: ContractRole;
    }
  | { readonly part: 'wish'; readonly instruction: string }
  | { readonly part: 'grades' }
  | { readonly part: 'values'; readonly probabilities: readonly number[] }
  | { readonly part: 'weights'; readonly raw: readonly number[] };

const prefix = (part: Partial<JudgedProblem>): BeliefsVector => ({
  part: 'prefix',
  problem: 'How many people live in Tokyo?',
  conversation: '',
  evidence: nothing,
  contextTokens: 8192,
  ...part,
});
const card = (quality: string, role: ContractRole, skills: Readonly<Record<string, number>> = {}): BeliefsVector => ({
  part: 'card',
  quality,
  skills,
  role,
});

const manyDomains = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`domain ${at + 1}`, at / 20]));

export const beliefsInputs: Readonly<Record<string, BeliefsVector>> = {
  'a first turn': prefix({}),
  'an empty problem': prefix({ problem: '' }),
  'with a conversation': prefix({ conversation: 'System: Be brief.\nUser: Hello\r\nAssistant: Hi 👋' }),
  'CJK, emoji and CRLF': prefix({ problem: `${cjk}\r\n${family} é e\u0301 \u2028 \u007f\r\n` }),
  'lone surrogates': prefix({ problem: halves, conversation: halves }),
  'markers in every place': prefix({
    problem: markers,
    conversation: markers,
    evidence: { documents: [document(markers)], codeRuns: [{ code: markers, output: markers }], attempts: [] },
  }),
  'documents and code runs without the attempts': prefix({ evidence: full }),
  'attempts alone are no evidence': prefix({ evidence: { ...nothing, attempts: full.attempts } }),
  'long evidence in a small context': prefix({ evidence: long, contextTokens: 2048 }),
  'a long problem in a tiny context': prefix({ problem: `${'東😀'.repeat(900)} end`, contextTokens: 512 }),
  'a card that answers': card('excellent at sums', 'answer'),
  'a card that tries': card('excellent at sums', 'attempt'),
  'a card that searches': card('Own documents, then the web!', 'search'),
  'a card that calculates': card('writes careful Python?', 'enhance_reasoning'),
  'an empty card': card('', 'answer'),
  'a card of blanks': card(' \t\r\n', 'answer'),
  'markers, braces and emoji in a card': card(` {skills} ${markers} $& ${family}\r\n`, 'answer'),
  'a card with every grade of skill': card('A good all-rounder', 'answer', {
    law: 0.19,
    'computer science': 0.2,
    maths: 0.5,
    history: 0.79,
    chemistry: 0.8,
    [cjk]: 1,
    nothing: 0,
  }),
  'a calculator with skills': card('Writes Python.', 'enhance_reasoning', { code: 0.9 }),
  'markers and braces in the names of domains': card('Good', 'attempt', { [`{skills} ${markers} $&`]: 0.6 }),
  'more domains than are told': card('Good.', 'answer', manyDomains),
  'a wish': { part: 'wish', instruction: ' Keep it cheap, but right.\n' },
  'an empty wish': { part: 'wish', instruction: '' },
  'markers, braces and CJK in a wish': { part: 'wish', instruction: `{instruction} ${markers}\r\n${cjk}` },
  'the grades': { part: 'grades' },
  'sure of the best': { part: 'values', probabilities: [0, 0, 0, 0, 1] },
  'sure of the worst': { part: 'values', probabilities: [1, 0, 0, 0, 0] },
  'quite unsure': { part: 'values', probabilities: [0.2, 0.2, 0.2, 0.2, 0.2] },
  'a wish that cares for everything': { part: 'weights', raw: [1, 1, 1, 1] },
  'a wish that cares for some things': { part: 'weights', raw: [0.5, 0.1, 0.25, 0] },
  'a wish that cares for nothing': { part: 'weights', raw: [0, 0, 0, 0] },
  'leaning to good': { part: 'values', probabilities: [0.03, 0.07, 0.2, 0.5, 0.2] },
};

/** Enough digits to find any difference, fewer than two languages may differ in. */
const rounded = (value: number): number => Number(value.toPrecision(12));

export function beliefsResult(input: BeliefsVector, contract: BeliefsContract): unknown {
  switch (input.part) {
    case 'prefix':
      return problemPrefix(input, contract);
    case 'card':
      return cardBranch(input, input.role, contract);
    case 'wish':
      return { prefix: wishPrefix(input.instruction, contract), branches: wishBranches(contract) };
    case 'grades':
      return gradeSegments(contract);
    case 'weights':
      return Object.values(wishWeights(input.raw)).map(rounded);
    case 'values': {
      const { chances, gains, weights, levels } = contract;
      const [chance, gain, weight] = [chances, gains, weights].map((values) => expectedOf(input.probabilities, values));
      const spread = spreadOverLevels(chance ?? Number.NaN, levels);
      return [chance, gain, weight, ...spread].map((value) => rounded(value ?? Number.NaN));
    }
  }
}
