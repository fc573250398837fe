import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Template } from '@huggingface/jinja';
import { describe, expect, test } from 'vitest';
import { agree, finalAnswer } from '../../src/contract/agree.ts';
import { applyObservation } from '../../src/contract/apply.ts';
import { openChoices } from '../../src/contract/choices.ts';
import { keepHead, keepTail } from '../../src/contract/code-points.ts';
import { keepNewest } from '../../src/contract/cut.ts';
import { noEvidence } from '../../src/contract/evidence.ts';
import { evidenceText } from '../../src/contract/evidence-text.ts';
import { loadBeliefs, loadContract } from '../../src/contract/load.ts';
import { parseDecision } from '../../src/contract/parse.ts';
import { phrasePreference } from '../../src/contract/phrase.ts';
import { choiceSegments, renderPrompt, thoughtSegments } from '../../src/contract/render.ts';
import { type ContractName, contractNames } from '../../src/contract/schema.ts';
import { joinSegments } from '../../src/contract/segment.ts';
import { deliverCard, slotCard } from '../../src/contract/slot-card.ts';
import { aSlot } from '../support/slots.ts';
import { beliefsInputs, beliefsResult } from './beliefs-inputs.ts';
import { type EpisodeVector, episodeInputs } from './episode-inputs.ts';
import * as inputs from './golden-inputs.ts';

/**
 * Vectors that the Python twins read too. `UPDATE_GOLDEN=1 npx vitest run test/contract/golden.test.ts` writes them anew
 * from golden-inputs.ts: do it only for a deliberate change of the contract, and read the difference.
 */

const contracts = Object.fromEntries(contractNames.map((name) => [name, loadContract(name)]));
const contractOf = (name: ContractName) => contracts[name] ?? loadContract(name);
const beliefs = loadBeliefs();
const template = new Template(readFileSync(new URL('fixtures/qwen3-chat-template.jinja', import.meta.url), 'utf8'));

interface Vector {
  readonly name: string;
  readonly input: unknown;
  readonly expected: unknown;
}

/** The frame of our prompt taken apart again, as a chat library would be given it. */
function chatOf(prompt: inputs.PromptVector) {
  const text = joinSegments(renderPrompt(prompt, contractOf(prompt.contract)));
  const lines = text.slice(text.indexOf('<tools>\n') + 8, text.indexOf('\n</tools>\n\nFor each')).split('\n');
  const userStart = text.indexOf('<|im_start|>user\n', text.indexOf('\n</tools>\n\nFor each')) + 17;
  const user = text.slice(userStart, text.lastIndexOf('<|im_end|>'));
  return {
    messages: [
      { role: 'system', content: contractOf(prompt.contract).system },
      { role: 'user', content: user },
    ],
    tools: lines.map((line): unknown => JSON.parse(line)),
  };
}

const chatInputs = Object.fromEntries(
  Object.entries(inputs.promptInputs)
    .filter(([name]) => !name.startsWith('long'))
    .map(([name, prompt]) => [name, { prompt, ...chatOf(prompt) }]),
);

function cut(input: inputs.CutVector): string {
  switch (input.cut) {
    case 'tail':
      return keepTail(input.text, input.limit);
    case 'head':
      return keepHead(input.text, input.limit, input.mark);
    case 'newest':
      return keepNewest(input.blocks, input.limit);
    case 'evidence':
      return evidenceText(input.evidence, input.limit, contractOf('slots-1'));
  }
}

function promptFacts(input: inputs.PromptVector) {
  const segments = renderPrompt(input, contractOf(input.contract));
  return { sha256: createHash('sha256').update(joinSegments(segments)).digest('hex'), segments };
}

/** Turn by turn: what was open, and the prompt that a policy would read. */
function episode({ contract: name, problem, slots, observations }: EpisodeVector) {
  const contract = contractOf(name);
  const mayAttempt = name !== 'slots-1';
  let evidence = noEvidence;
  const turns = [undefined, ...observations].map((observation) => {
    if (observation !== undefined) evidence = applyObservation(evidence, observation);
    const { open, withdrawn } = openChoices(slots, evidence, contract.budgets, mayAttempt);
    const cards = open.map(({ id, role, delivers }) => ({
      role,
      card: delivers ? deliverCard(delivers, contract) : slotCard(aSlot({ id }), contract),
    }));
    const input = { problem, conversation: '', evidence, choices: cards, preference: '', contextTokens: 40_960 };
    const prompt = joinSegments(renderPrompt(input, contract));
    return {
      open: open.map(({ id, role, slot }) => ({ id, role, slot })),
      withdrawn,
      calls: open.map(({ id, role }) => joinSegments(choiceSegments(role, id, contract))),
      promptSha256: createHash('sha256').update(prompt).digest('hex'),
    };
  });
  return { card: slotCard(aSlot({ id: 'ID' }), contract), turns, evidence };
}

const suite = <Input>(cases: Readonly<Record<string, Input>>, run: (input: Input) => unknown): Vector[] =>
  Object.entries(cases).map(([name, input]) => ({ name, input, expected: run(input) }));

const suites: Record<string, Vector[]> = {
  prompt: suite(inputs.promptInputs, promptFacts),
  'chat-template': suite(chatInputs, ({ messages, tools }) =>
    template.render({ messages, tools, add_generation_prompt: true }),
  ),
  cut: suite(inputs.cutInputs, cut),
  decision: suite(inputs.decisionInputs, ({ text, contract, admissible }) =>
    parseDecision(text, contractOf(contract), admissible),
  ),
  agree: suite(inputs.agreeInputs, ({ left, right }) => ({
    agree: agree(left, right) ?? null,
    left: finalAnswer(left) ?? null,
    right: finalAnswer(right) ?? null,
  })),
  apply: suite(inputs.applyInputs, ({ evidence, observation }) => applyObservation(evidence, observation)),
  beliefs: suite(beliefsInputs, (input) => beliefsResult(input, beliefs)),
  episode: suite(episodeInputs, episode),
  preference: suite(inputs.preferenceInputs, ({ weights, instruction }) =>
    phrasePreference(weights, instruction ?? undefined, contractOf('slots-1')),
  ),
};

describe.each(Object.keys(suites))('the vectors in %s.json', (name) => {
  const file = fileURLToPath(new URL(`../golden/${name}.json`, import.meta.url));
  const computed = suites[name] ?? [];
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(file, `${JSON.stringify(computed, null, 1)}\n`);
  const stored: Vector[] = JSON.parse(readFileSync(file, 'utf8'));

  test('are those of the inputs, and more than none', () => {
    expect(stored.length).toBeGreaterThan(0);
    expect(stored.map((vector) => vector.name)).toEqual(computed.map((vector) => vector.name));
  });

  test.each(stored)('hold: $name', ({ name: vectorName, input, expected }) => {
    const now = computed.find((vector) => vector.name === vectorName);
    // Through JSON, since that is what both languages compare.
    const plain: unknown = JSON.parse(JSON.stringify(now));
    expect(plain).toEqual({ name: vectorName, input, expected });
  });
});

test.each(Object.entries(chatInputs))('the prompt equals what the template of Qwen3 makes: %s', (_, input) => {
  const rendered = template.render({ messages: input.messages, tools: input.tools, add_generation_prompt: true });
  expect(joinSegments(renderPrompt(input.prompt, contractOf(input.prompt.contract)))).toBe(rendered);
});

test('an empty thought is what the template of Qwen3 writes when thinking is off', () => {
  const input = chatInputs['first turn'];
  const chat = { messages: input?.messages, tools: input?.tools, add_generation_prompt: true };
  const { open, close } = thoughtSegments(contractOf('slots-1'));
  const closed = template.render({ ...chat, enable_thinking: false });
  expect(closed).toBe(template.render(chat) + open.text + close.text);
});
