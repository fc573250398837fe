import type { Segment } from '../../src/contract/segment.ts';
import type { MeasuredEngine } from './contestants.ts';

const words = (text: string): Segment => ({ kind: 'text', text });
const never = () => new AbortController().signal;

const problem = 'A train leaves at nine and another one at ten; which of them is at the coast first, and by how much? ';
const cards = Array.from({ length: 12 }, (_, index) => [
  words(`Slot ${index}: a good general model, strong in mathematics, weak in law. Will its answer be right?`),
]);
const grades = ['never', 'rarely', 'maybe', 'likely', 'surely'].map((grade) => [words(` ${grade}`)]);
const calls = Array.from({ length: 12 }, (_, index) => [
  words(`{"tool": "${['search', 'reasoner', 'answer'][index % 3]}-${index}"}`),
]);
const noThought = { budgetTokens: 0, open: words(''), close: words('') };

/** CPU of one decision over twelve slots, the prompt being warm, beside that of reading as many tokens as one prompt. */
export async function decisionCosts({ engine, cpuMs }: MeasuredEngine, form: 'trie' | 'branches', round: number) {
  const spent = async <Result>(act: () => Promise<Result>) => {
    const before = cpuMs();
    const result = await act();
    return { result, ms: cpuMs() - before };
  };
  const prompt = [words(`${round} ${problem.repeat(4)}`)];
  const score = () => engine.score({ prompt, choices: calls, thought: noThought, seed: 1, signal: never() });
  const judge = () => engine.judge({ prompt, questions: cards, answers: grades, signal: never() });
  const decide = form === 'trie' ? score : judge;
  await decide();
  const repeats = form === 'trie' ? 8 : 3;
  let tokens = 0;
  const decided = await spent(async () => {
    for (let repeat = 0; repeat < repeats; repeat++) tokens += (await decide()).usage.promptTokens;
  });
  let readTokens = 0;
  const bare = await spent(async () => {
    for (let repeat = 0; repeat < repeats; repeat++) {
      const text = `${round} ${repeat} ${problem.repeat(40)}`;
      // About four letters a token; what it came to is in the usage.
      const part = text.slice(0, Math.round((tokens / repeats) * 4.3));
      const choices = [[words('a')], [words('b')]];
      const { usage } = await engine.score({
        prompt: [words(part)],
        choices,
        thought: noThought,
        seed: 1,
        signal: never(),
      });
      readTokens += usage.promptTokens;
    }
  });
  return { decision: decided.ms / tokens, bare: bare.ms / readTokens };
}
