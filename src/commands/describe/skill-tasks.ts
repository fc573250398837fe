import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { type Dice, rollFrom } from './dice.ts';
import { makers, type Question } from './made-tasks.ts';

/** A question whose answer can be checked. */
export interface SkillTask extends Question {
  readonly domain: string;
}

const questionFile = z.strictObject({
  about: z.string(),
  domains: z.record(
    z.string(),
    z.array(z.strictObject({ question: z.string(), answers: z.array(z.string()).min(1) })).min(10),
  ),
});

const readQuestions = () => {
  const file = fileURLToPath(new URL('../../../models/skill-questions.json', import.meta.url));
  return questionFile.parse(JSON.parse(readFileSync(file, 'utf8'))).domains;
};

/** So many of each domain, the same for the same seed, turn about: whoever stops early has seen something of all. */
export function skillTasks(perDomain: number, seed: number): readonly SkillTask[] {
  const dice = rollFrom(seed);
  const written = Object.entries(readQuestions()).map(([domain, questions]) =>
    dice.shuffled(questions).map((question) => ({ domain, ...question })),
  );
  const made = Object.entries(makers).map(([domain, make]) => madeTasks(domain, make, perDomain, dice));
  return Array.from({ length: perDomain }, (_, turn) =>
    [...made, ...written].flatMap((tasks) => tasks[turn] ?? []),
  ).flat();
}

function madeTasks(domain: string, make: (dice: Dice) => Question, count: number, dice: Dice) {
  const tasks = new Map<string, SkillTask>();
  while (tasks.size < count) {
    const task = { domain, ...make(dice) };
    tasks.set(task.question, task);
  }
  return [...tasks.values()];
}

/** What a slot is asked: the question and how its answer is found again. */
export const promptOf = ({ question }: SkillTask): string =>
  `${question}\n\nThink as long as you need. End with a line of its own: "Answer: " and nothing but the answer.`;

/** Compares the last line that says `Answer:`, or without one the last line; case, quotes and full stops do not count. */
export function isRight({ answers }: SkillTask, text: string): boolean {
  const found = plain(finalAnswer(text));
  return answers.some((answer) => plain(answer) === found || sameNumber(plain(answer), found));
}

function finalAnswer(text: string): string {
  const said = [...text.matchAll(/answer\s*[:=]\s*(\S.*)$/gim)].at(-1)?.[1];
  return said ?? text.trim().split('\n').at(-1) ?? '';
}

const plain = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[’‘]/g, "'")
    .replace(/\\boxed|[*_`"$\\{}]/g, '')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/^\(|[.)!]+$/g, '');

const number = /^-?\d+(?:\.\d+)?$/;
const sameNumber = (left: string, right: string): boolean => {
  const digits = right.replaceAll(',', '');
  return number.test(left) && number.test(digits) && Number(left) === Number(digits);
};
