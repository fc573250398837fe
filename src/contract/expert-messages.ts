import { type ChatMessage, textOf } from './chat.ts';
import { countCodePoints, keepHead, wellFormed } from './code-points.ts';
import type { Evidence } from './evidence.ts';
import { evidenceText, sourced } from './evidence-text.ts';
import { fill } from './fill.ts';
import type { Contract } from './schema.ts';

export interface ExpertInput {
  /** The client's messages, verbatim and whole. */
  readonly messages: readonly ChatMessage[];
  readonly evidence: Evidence;
  /** Context of the expert's model. */
  readonly contextTokens: number;
  /** What of it is kept for the output. */
  readonly maxOutputTokens: number;
}

/** For the answer: the client's messages with the observations behind the last user message. */
export function answerMessages(input: ExpertInput, contract: Contract): ChatMessage[] {
  return withAppendix(input, '', contract);
}

/** Asks for a search query; read the reply with `extractQuery`. */
export function queryMessages(input: ExpertInput, contract: Contract): ChatMessage[] {
  return withAppendix(input, contract.expert.queryTask, contract);
}

/**
 * Asks for a Python program; read the reply with `extractPython`.
 * @param packages what it finds installed beside the standard library
 */
export function codeMessages(input: ExpertInput, packages: readonly string[], contract: Contract): ChatMessage[] {
  const libraries = [contract.expert.standardLibrary, ...packages].join(', ');
  return withAppendix(input, fill(contract.expert.codeTask, { libraries }), contract);
}

/** The query between the last pair of tags, on one line and cut; undefined when the reply holds none. */
export function extractQuery(reply: string, { expert }: Contract): string | undefined {
  const end = reply.lastIndexOf(expert.queryClose);
  const start = end < 0 ? -1 : reply.lastIndexOf(expert.queryOpen, end);
  if (start < 0) return undefined;
  return queryFrom(reply.slice(start + expert.queryOpen.length, end), { expert });
}

/** Any text as a search query: on one line, cut to what search engines take; undefined when nothing is left. */
export function queryFrom(text: string, { expert }: Pick<Contract, 'expert'>): string | undefined {
  const line = text.replace(/\s+/g, ' ').trim();
  return line === '' ? undefined : keepHead(line, expert.queryCodePoints).trim();
}

/** The last closed block fenced as Python, else the last without a language; undefined when neither holds code. */
export function extractPython(reply: string): string | undefined {
  const blocks = fencedBlocks(reply);
  const named = blocks.findLast(({ language }) => /^(python3?|py)$/i.test(language));
  const code = (named ?? blocks.findLast(({ language }) => language === ''))?.code.trimEnd() ?? '';
  return code === '' ? undefined : code;
}

interface FencedBlock {
  readonly language: string;
  readonly code: string;
}

/** Line by line, so that no reply takes more than linear time. A block that never closes is none. */
function fencedBlocks(reply: string): FencedBlock[] {
  const blocks: FencedBlock[] = [];
  let open: { readonly fence: string; readonly language: string; readonly lines: string[] } | undefined;
  for (const line of reply.split(/\r?\n/)) {
    const [, fence = '', info = ''] = /^[ \t]*(`{3,})([^`]*)$/.exec(line) ?? [];
    const language = info.trim();
    if (open === undefined) {
      if (fence !== '') open = { fence, language, lines: [] };
    } else if (language === '' && fence.length >= open.fence.length) {
      blocks.push({ language: open.language, code: open.lines.join('\n') });
      open = undefined;
    } else open.lines.push(line);
  }
  return blocks;
}

function withAppendix(input: ExpertInput, task: string, contract: Contract): ChatMessage[] {
  const appendix = [observationBlock(input, task, contract), task].filter((text) => text !== '').join('\n\n');
  return appendix === '' ? [...input.messages] : appended(input.messages, appendix);
}

/** The observations between fences longer than any run of backticks inside: nothing in them can close the block. */
function observationBlock(input: ExpertInput, task: string, contract: Contract): string {
  const { expert, budgets } = contract;
  const room = (input.contextTokens - input.maxOutputTokens) * budgets.codePointsPerToken;
  const taken = input.messages.reduce((sum, message) => sum + countCodePoints(wireText(message)), 0);
  const frame = countCodePoints(expert.observations) + countCodePoints(task) + 2 * longestRun + 16;
  const limit = Math.max(0, room - taken - frame);
  const evidence = evidenceText(input.evidence, limit, contract, sourced(contract)).trimEnd();
  if (evidence === '') return '';
  const text = wellFormed(evidence).replace(/`{16,}/g, '`'.repeat(longestRun));
  let fence = '```';
  while (text.includes(fence)) fence += '`';
  return `${expert.observations}\n\n${fence}\n${text}\n${fence}`;
}

/** Longer runs of backticks are shortened to this, so that the fences take a known part of the context. */
const longestRun = 16;

const wireText = (message: ChatMessage): string =>
  textOf(message) + (message.tool_calls ?? []).map((call) => JSON.stringify(call)).join('');

/** Appends to the last user message and leaves all others as they are; without one, it becomes a message of its own. */
function appended(messages: readonly ChatMessage[], text: string): ChatMessage[] {
  const last = messages.findLastIndex(({ role }) => role === 'user');
  const target = messages[last];
  if (target === undefined) return [...messages, { role: 'user', content: text }];
  const content = Array.isArray(target.content)
    ? [...target.content, { type: 'text', text }]
    : [target.content, text].filter((part) => part !== '' && part !== null && part !== undefined).join('\n\n');
  return messages.with(last, { ...target, content });
}
