import type { ChatMessage } from '../contract/chat.ts';
import type { Evidence } from '../contract/evidence.ts';
import { type MeteredUsage, usageOf } from '../cost/usage.ts';
import type { ToolInput } from './tool.ts';

/** For chat templates and our own words around the material. */
const allowanceBytes = 1024;
/** Label and fence of each observation. */
const frameBytes = 64;

/**
 * Upper bound of what one call to an expert can consume: no tokenizer makes more tokens than UTF-8 bytes.
 * The router asks many times for the same long chat, so the sizes of what cannot change are kept.
 */
export function createExpertBound(meter: string): (input: ToolInput, maxOutputTokens: number) => MeteredUsage {
  const chats = new WeakMap<readonly ChatMessage[], number>();
  const evidences = new WeakMap<Evidence, number>();
  return ({ messages, evidence, answerOptions }, maxOutputTokens) => {
    const inputTokens =
      kept(chats, messages, jsonBytes) +
      kept(evidences, evidence, evidenceBytes) +
      jsonBytes(answerOptions) +
      allowanceBytes;
    return { meter, usage: usageOf({ inputTokens, outputTokens: maxOutputTokens, calls: 1 }) };
  };
}

function kept<Key extends object>(sizes: WeakMap<Key, number>, key: Key, measure: (key: Key) => number): number {
  const size = sizes.get(key) ?? measure(key);
  sizes.set(key, size);
  return size;
}

const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

function evidenceBytes({ documents, codeRuns, attempts }: Evidence): number {
  const texts = [
    ...documents.map(({ title = '', url = '', text }) => title + url + text),
    ...codeRuns.flatMap(({ code, output }) => [code, output]),
    ...attempts.flatMap(({ slot, text }) => [slot, text]),
  ];
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text) + frameBytes, 0);
}
