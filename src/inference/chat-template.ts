import { Template } from '@huggingface/jinja';
import { type ChatWrapper, type LlamaModel, resolveChatWrapper, type Token } from 'node-llama-cpp';
import { type ChatMessage, textOf } from '../contract/chat.ts';
import { markup, mergeTexts, type Segment, untrusted } from '../contract/segment.ts';
import { EngineFailure, type ToolDefinition } from './engine.ts';
import type { ModelTokens } from './tokens.ts';

export interface ChatTemplate {
  /** Whether it shows tools to the model, and has calls written in the one form that we read. */
  readonly takesTools: boolean;
  /** Up to the place where the model answers. */
  prompt(messages: readonly ChatMessage[], tools: readonly ToolDefinition[]): Token[];
}

/**
 * The GGUF's own template, rendered as its authors' own software does. Only control tokens that the template itself
 * writes become control tokens. Files without a template get the library's for their architecture, without tools.
 */
export function chatTemplate(model: LlamaModel, tokens: ModelTokens): ChatTemplate {
  const source: unknown = model.fileInfo.metadata.tokenizer?.chat_template;
  try {
    return typeof source === 'string' ? ownTemplate(source, model, tokens) : libraryTemplate(model, tokens);
  } catch (error) {
    // Scoring needs no template, so such a model is still of use.
    const refuse = () => {
      throw new EngineFailure('unavailable', 'the chat template in the weights file cannot be used', error);
    };
    return { takesTools: false, prompt: refuse };
  }
}

/** Cuts apart what would be a control token in somebody else's text, for as long as the template is rendered. */
const guard = '\uFDD0';

function ownTemplate(source: string, model: LlamaModel, tokens: ModelTokens): ChatTemplate {
  const template = new Template(source);
  const takesTools = /\btools\b/.test(source) && source.includes('<tool_call>');
  const { bosString, eosString, bos, shouldPrependBosToken } = model.tokens;
  const guarded = (value: unknown) => mapTexts(value, (text) => text.replaceAll(tokens.special, cut));
  const prompt: ChatTemplate['prompt'] = (messages, tools) => {
    const shown = tools.map(({ strict: _, ...definition }) => ({ type: 'function', function: definition }));
    const rendered = template.render({
      messages: guarded(messages.map(takesTools ? templateMessage : plainMessage)),
      ...(shown.length > 0 && { tools: guarded(shown) }),
      add_generation_prompt: true,
      bos_token: bosString ?? '',
      eos_token: eosString ?? '',
    });
    const ids = tokens.ofSegments(segmentsOf(rendered, tokens.special));
    return shouldPrependBosToken && bos !== null && ids[0] !== bos ? [bos, ...ids] : ids;
  };
  return { takesTools, prompt: refusingBadly(prompt) };
}

const cut = (special: string): string => {
  const [first = ''] = special;
  return first + guard + special.slice(first.length);
};

function segmentsOf(rendered: string, special: RegExp): Segment[] {
  const segments: Segment[] = [];
  let start = 0;
  const text = (end: number) => untrusted(rendered.slice(start, end).replaceAll(guard, ''));
  for (const match of rendered.matchAll(special)) {
    segments.push(text(match.index), markup(match[0]));
    start = match.index + match[0].length;
  }
  return mergeTexts([...segments, text(rendered.length)]);
}

/** Names of properties are somebody else's too. */
function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, change));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [change(key), mapTexts(item, change)]));
}

function plainMessage(message: ChatMessage) {
  const role = { system: 'system', developer: 'system', assistant: 'assistant' }[message.role as string] ?? 'user';
  return { role, content: textOf(message) };
}

/** With calls and their results; arguments as objects, which templates write as their models learnt it. */
function templateMessage(message: ChatMessage) {
  const calls = (message.tool_calls ?? []).flatMap(({ id, function: called }) =>
    called ? [{ id, type: 'function', function: { name: called.name, arguments: parsed(called.arguments) } }] : [],
  );
  if (message.role !== 'tool' && message.role !== 'function') {
    return { ...plainMessage(message), ...(calls.length > 0 && { tool_calls: calls }) };
  }
  return { role: 'tool', content: textOf(message), name: message.name ?? '', tool_call_id: message.tool_call_id ?? '' };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function libraryTemplate(model: LlamaModel, tokens: ModelTokens): ChatTemplate {
  const wrapper: ChatWrapper = resolveChatWrapper(model, { type: 'auto', warningLogs: false });
  const prompt: ChatTemplate['prompt'] = (messages) => {
    const chatHistory = messages.map((message) => {
      const { role, content: text } = plainMessage(message);
      if (role === 'assistant') return { type: 'model' as const, response: [text] };
      return { type: role === 'system' ? ('system' as const) : ('user' as const), text };
    });
    const answer = { type: 'model' as const, response: [] };
    return tokens.ofTemplate(wrapper.generateContextState({ chatHistory: [...chatHistory, answer] }).contextText);
  };
  return { takesTools: false, prompt: refusingBadly(prompt) };
}

const refusingBadly =
  (prompt: ChatTemplate['prompt']): ChatTemplate['prompt'] =>
  (messages, tools) => {
    try {
      return prompt(messages, tools);
    } catch (error) {
      throw new EngineFailure('invalid', 'the chat template of this model refuses these messages', error);
    }
  };
