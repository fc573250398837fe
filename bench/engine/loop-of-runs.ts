import type { ChatMessage } from '../../src/contract/chat.ts';
import { median } from '../figures.ts';
import type { Contestant } from './contestants.ts';

export interface Loop {
  readonly runs: number;
  readonly sequences: number;
  readonly turns: number;
}

/** Lengths as orchestration has them: instructions and tools, what a tool gave back, and what the policy says. */
const sharedTokens = 1_200;
const observationTokens = 60;
const writtenTokens = 30;

const sentence = ' the answer of good search and';
const tokensOfSentence = 6;
const text = (tokens: number, beginning: string): string =>
  beginning + sentence.repeat(Math.round(tokens / tokensOfSentence));

/** Runs that start together, share their instructions, and grow turn by turn; every round has other instructions. */
export async function playLoop(contestant: Contestant, { runs, turns }: Loop, round: number) {
  const system: ChatMessage = { role: 'system', content: text(sharedTokens, `round ${round}`) };
  const firstMs: number[] = [];
  const laterMs: number[] = [];
  const before = contestant.cpuMs();
  const play = async (run: number) => {
    const messages = [system];
    for (let turn = 0; turn < turns; turn++) {
      messages.push({ role: 'user', content: text(observationTokens, `run ${run} turn ${turn}`) });
      const { firstTokenMs } = await contestant.ask(messages, writtenTokens);
      (turn === 0 ? firstMs : laterMs).push(firstTokenMs);
    }
  };
  await Promise.all(Array.from({ length: runs }, (_, run) => play(run)));
  return { cpu: contestant.cpuMs() - before, first: median(firstMs), later: median(laterMs) };
}
