import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { ChatMessage } from '../contract/chat.ts';
import { anthropicBlocks, textBlock, type WireBlock } from './anthropic-content.ts';
import { anthropicTools } from './anthropic-tools.ts';
import type { ChatRequest } from './chat.ts';
import { repairToolTurns } from './tool-turns.ts';

interface WireTurn {
  readonly role: 'user' | 'assistant';
  readonly content: WireBlock[];
}

/** Our request as a Messages body: always a stream, always bounded. */
export function anthropicBody({ model, messages, maxOutputTokens, options }: ChatRequest) {
  const isInstruction = ({ role }: ChatMessage) => role === 'system' || role === 'developer';
  const system = messages.filter(isInstruction).flatMap(anthropicBlocks);
  const turns = turnsOf(repairToolTurns(messages.filter((message) => !isInstruction(message))));
  return {
    ...samplingOf(options),
    ...anthropicTools(options, messages),
    model,
    max_tokens: maxOutputTokens,
    ...(system.length > 0 ? { system } : {}),
    messages: turns,
    stream: true,
  } as const;
}

/** Fields that the newest models refuse; see `anthropic.ts`. */
export const samplingFields = ['temperature', 'top_p', 'top_k'] as const;

const samplingSchema = z.object({
  temperature: z.number().optional().catch(undefined),
  top_p: z.number().optional().catch(undefined),
  top_k: z.number().optional().catch(undefined),
  stop: z.union([z.string().transform((text) => [text]), z.array(z.string())]).catch([]),
});

function samplingOf(options: ChatRequest['options']): Record<string, unknown> {
  const { temperature, top_p, top_k, stop } = samplingSchema.parse(options);
  // White space alone is refused as a stop sequence.
  const stops = stop.filter((text) => text.trim() !== '');
  return {
    ...(temperature === undefined ? {} : { temperature: Math.min(1, Math.max(0, temperature)) }),
    // Many models refuse both at once.
    ...(top_p === undefined || temperature !== undefined ? {} : { top_p }),
    ...(top_k === undefined ? {} : { top_k }),
    ...(stops.length > 0 ? { stop_sequences: stops } : {}),
  };
}

/** Neighbours of one role become one turn, so that all results of a turn's calls stand together, as the API demands. */
function turnsOf(messages: readonly ChatMessage[]): WireTurn[] {
  const callIds = createCallIds();
  const turns: WireTurn[] = [];
  for (const message of messages) {
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const content = contentOf(message, callIds);
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...content);
    else if (content.length > 0) turns.push({ role, content });
  }
  // A conversation has to begin with the user.
  return turns[0]?.role === 'assistant' ? [{ role: 'user', content: [textBlock('…')] }, ...turns] : turns;
}

function contentOf(message: ChatMessage, callIds: CallIds): WireBlock[] {
  const blocks = anthropicBlocks(message);
  if (message.role === 'tool') {
    const result = { type: 'tool_result', tool_use_id: callIds.of(message.tool_call_id ?? '') };
    return [blocks.length > 0 ? { ...result, content: blocks } : result];
  }
  const calls = (message.tool_calls ?? []).map((call) => ({
    type: 'tool_use',
    id: callIds.next(call.id),
    name: call.function?.name ?? '',
    input: inputOf(call.function?.arguments ?? ''),
  }));
  return [...blocks, ...calls];
}

/** Calls must have an object; what is none is handed on as text inside one rather than lost. */
function inputOf(text: string): object {
  try {
    return z.looseObject({}).parse(JSON.parse(text || '{}'));
  } catch {
    return { arguments: text };
  }
}

interface CallIds {
  /** For a call: its id in the characters that are allowed, and different from all before. */
  next(id: string): string;
  /** For the result of the latest call of that id. */
  of(id: string): string;
}

function createCallIds(): CallIds {
  const latest = new Map<string, string>();
  const taken = new Set<string>();
  const repeats = new Map<string, number>();
  return {
    next(id) {
      const plain = /^[\w-]+$/.test(id) ? id : createHash('sha256').update(id).digest('hex').slice(0, 24);
      let unique = plain;
      // Goes on where the last search ended, or a long history of one id would be walked again for each call.
      let repeat = repeats.get(plain) ?? 1;
      while (taken.has(unique)) {
        repeat += 1;
        unique = `${plain}_${repeat}`;
      }
      repeats.set(plain, repeat);
      taken.add(unique);
      latest.set(id, unique);
      return unique;
    },
    of: (id) => latest.get(id) ?? id,
  };
}
