import { countCodePoints, keepTail, wellFormed } from './code-points.ts';
import { promptBudgets } from './cut.ts';
import type { Evidence } from './evidence.ts';
import { evidenceText } from './evidence-text.ts';
import { fill } from './fill.ts';
import { dumpJson } from './json.ts';
import type { Contract, ContractRole } from './schema.ts';
import { mergeTexts, type Segment, trusted, untrusted } from './segment.ts';
import { type Choice, describeSlots } from './slot-card.ts';

export interface PromptInput {
  readonly problem: string;
  /** Earlier turns of the client's chat, empty when there are none. */
  readonly conversation: string;
  readonly evidence: Evidence;
  /** What may be chosen this turn; a role without choices is not shown. */
  readonly choices: readonly Choice[];
  /** From `phrasePreference`; empty for the balanced default. */
  readonly preference: string;
  /** Of the policy; budgets scale with it. */
  readonly contextTokens: number;
}

/** What a server of models needs to make the same prompt by the chat template of its own model. */
export interface ChatPrompt {
  readonly system: string;
  readonly user: string;
  /** One line of JSON a function, in the order of the contract, written as trained. */
  readonly tools: readonly string[];
}

export const chatPrompt = (input: PromptInput, contract: Contract): ChatPrompt => ({
  system: contract.system,
  user: wellFormed(userText(input, contract)),
  tools: toolTexts(input.choices, contract),
});

/**
 * The prompt of one turn: Qwen3's chat template with tools, one user message and the generation prompt. On other ChatML
 * models (SmolLM2) the tags that are no control tokens there are tokenised as the plain text they are.
 */
export function renderPrompt(input: PromptInput, contract: Contract): Segment[] {
  const { chat } = contract;
  const { system, user, tools } = chatPrompt(input, contract);
  const ours = (text: string): Segment[] => trusted(text, chat.controlTags);
  return mergeTexts([
    ...ours(chat.systemOpen + system + chat.toolsOpen),
    ...tools.map((tool) => untrusted(`\n${tool}`)),
    ...ours(chat.toolsClose + chat.turnClose + chat.userOpen),
    untrusted(user),
    ...ours(chat.turnClose + chat.assistantOpen),
  ]);
}

/** The call that chooses this slot, as the engine scores it. */
export function choiceSegments(role: ContractRole, slotId: string, contract: Contract): Segment[] {
  const { chat } = contract;
  const call = dumpJson({ name: functionOf(role, contract).function.name, arguments: { model: slotId } });
  return mergeTexts([
    ...trusted(chat.callOpen, chat.controlTags),
    untrusted(call),
    ...trusted(chat.callClose, chat.controlTags),
  ]);
}

/** How Qwen3 opens and closes a thought, one segment each. Where `<think>` is no control token it is plain text. */
export function thoughtSegments({ chat }: Contract): { readonly open: Segment; readonly close: Segment } {
  return { open: { kind: 'markup', text: chat.thoughtOpen }, close: { kind: 'markup', text: chat.thoughtClose } };
}

function functionOf(role: ContractRole, contract: Contract): Contract['functions'][number]['tool'] {
  const found = contract.functions.find((candidate) => candidate.role === role);
  if (found === undefined) throw new RangeError(`contract ${contract.name} has no role ${role}`);
  return found.tool;
}

/** One line of JSON a function, in the order of the contract. */
function toolTexts(choices: readonly Choice[], contract: Contract): string[] {
  return contract.functions.flatMap(({ role, tool }) => {
    const cards = choices.filter((choice) => choice.role === role).map(({ card }) => card);
    if (cards.length === 0) return [];
    const { parameters } = tool.function;
    const { model } = parameters.properties;
    const description = fill(model.description, { slots: describeSlots(cards, contract) });
    // Replacing a value keeps its key's place: the key order stays as trained.
    const shown = { ...parameters, properties: { model: { ...model, description } } };
    return [dumpJson({ ...tool, function: { ...tool.function, parameters: shown } })];
  });
}

function userText(input: PromptInput, contract: Contract): string {
  const { labels, closing } = contract;
  const budgets = promptBudgets(input.contextTokens, contract);
  const conversation = keepTail(input.conversation, budgets.conversation);
  const problem = keepTail(input.problem, budgets.problem);
  const room = budgets.prompt - countCodePoints(conversation) - countCodePoints(problem);
  return [
    conversation === '' ? '' : `${labels.conversation}${conversation}\n\n`,
    labels.problem,
    problem,
    input.preference === '' ? '' : `\n\n${input.preference}`,
    `\n\n${evidenceText(input.evidence, room, contract)}\n\n`,
    closing,
  ].join('');
}
