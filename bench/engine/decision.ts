import { loadContract } from '../../src/contract/load.ts';
import { choiceSegments } from '../../src/contract/render.ts';
import type { Segment } from '../../src/contract/segment.ts';
import type { MeasuredEngine } from './contestants.ts';

export type DecisionForm = 'trie' | 'branches';

const words = (text: string): Segment => ({ kind: 'text', text });
const never = () => new AbortController().signal;

const problem = 'A train leaves at nine and another one at ten; which of them is at the coast first, and by how much? ';
const cards = Array.from({ length: 12 }, (_, index) => [
  words(`Slot ${index}: a good general model, strong in mathematics, weak in law. Will its answer be right?`),
]);
const grades = ['never', 'rarely', 'maybe', 'likely', 'surely'].map((grade) => [words(` ${grade}`)]);
const contract = loadContract('slots-2');
const calls = (['answer', 'search', 'enhance_reasoning'] as const).flatMap((role) =>
  [1, 2, 3, 4].map((number) => choiceSegments(role, `${role.replace('enhance_', '')}-${number}`, contract)),
);
const noThought = { budgetTokens: 0, open: words(''), close: words('') };

/**
 * CPU ms a token of decisions over twelve slots, as the policies of the two forms ask for them, beside that of reading
 * as many tokens as one text behind the same prompt, which is warm for both.
 */
export async function decisionCosts({ engine, cpuMs }: MeasuredEngine, form: DecisionForm, round: number) {
  const prompt = [words(`${round} ${problem.repeat(4)}`)];
  const score = (text: string, choices: readonly (readonly Segment[])[]) =>
    engine.score({ prompt: [...prompt, words(text)], choices, thought: noThought, seed: 1, signal: never() });
  const judge = () => engine.judge({ prompt, questions: cards, answers: grades, signal: never() });
  const decide = () => (form === 'trie' ? score('', calls) : judge());
  const read = (tokens: number, repeat: number) =>
    score(`${repeat}${' the'.repeat(tokens - 1)}`, [[words('a')], [words('b')]]);
  const meter = () => {
    let ms = 0;
    let tokens = 0;
    return {
      async run(act: typeof decide) {
        const before = cpuMs();
        const { usage } = await act();
        ms += cpuMs() - before;
        tokens += usage.promptTokens;
        return usage.promptTokens;
      },
      msPerToken: () => ms / tokens,
    };
  };
  await decide();
  const decided = meter();
  const bare = meter();
  for (let repeat = 0; repeat < (form === 'trie' ? 16 : 3); repeat++) {
    const tokens = await decided.run(decide);
    await bare.run(() => read(tokens, repeat));
  }
  return { decision: decided.msPerToken(), bare: bare.msPerToken() };
}
