import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { isRight, skillTasks } from '../../../src/commands/describe/skill-tasks.ts';

test('every domain has as many questions as asked for, the same for the same seed', () => {
  const tasks = skillTasks(10, 5);
  const counts = new Map<string, number>();
  for (const { domain } of tasks) counts.set(domain, (counts.get(domain) ?? 0) + 1);
  expect(Object.fromEntries(counts)).toEqual({ math: 10, code: 10, logic: 10, language: 10, science: 10, history: 10 });
  expect(new Set(tasks.map(({ question }) => question)).size).toBe(60);
  expect(skillTasks(10, 5)).toEqual(tasks);
  expect(skillTasks(10, 6)).not.toEqual(tasks);
});

test('each accepted spelling of its own answer is right, and no other task’s answer to math is', () => {
  for (const task of skillTasks(10, 2)) {
    for (const answer of task.answers) expect(isRight(task, `So it is.\nAnswer: ${answer}`), answer).toBe(true);
    expect(isRight(task, 'Answer: 123456789')).toBe(false);
  }
});

const task = { domain: 'math', question: '', answers: ['1250'] };
test.each([
  ['Answer: 1250', true],
  ['ANSWER: **1,250**.', true],
  ['answer = 1250.0', true],
  ['First I think.\nAnswer: 12\nNo, wait.\nAnswer: $1250$', true],
  ['The result:\n1250', true],
  ['Answer: 1250 or 1251', false],
  ['1250\nAnswer: 7', false],
  ['', false],
])('%j is judged %s', (text, right) => {
  expect(isRight(task, text)).toBe(right);
});

test('Python prints what the questions about programs expect', () => {
  const programs = skillTasks(14, 3).filter(({ domain }) => domain === 'code');
  for (const { question, answers } of programs) {
    const code = question.slice(question.indexOf('\n\n') + 2);
    const run = spawnSync('python3', ['-c', code], { encoding: 'utf8' });
    expect(run.stdout.trim()).toBe(answers[0]);
  }
});

test('sums come out whole and races have one answer', () => {
  for (const { domain, question, answers } of skillTasks(14, 4)) {
    if (domain === 'math') expect(answers[0]).toMatch(/^\d+$/);
    if (domain === 'logic') expect(question).toContain(answers[0]);
  }
});
