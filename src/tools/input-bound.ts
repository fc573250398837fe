import type { ChatMessage } from '../contract/chat.ts';
import type { Evidence } from '../contract/evidence.ts';
import { type MeteredUsage, usageOf } from '../cost/usage.ts';
import type { Slot } from '../preferences/slot.ts';
import { type CacheMark, cacheMarkIn, dearestMark, promptUsage } from '../upstream/cache-marks.ts';
import { type UnwrittenInput, unwrittenIn, unwrittenTokens } from '../upstream/unwritten-input.ts';
import type { Expert } from './expert.ts';
import type { ToolInput } from './tool.ts';

/** For chat templates and our own words around the material: in every bound, and hardly ever used up. */
export const allowanceBytes = 1024;
/** Label and fence of each observation. */
const frameBytes = 64;

interface Chat {
  /** Of its text. */
  readonly bytes: number;
  readonly unwritten: UnwrittenInput | undefined;
  readonly mark: CacheMark;
}

/**
 * Upper bound of what one call to an expert can consume: no tokenizer makes more tokens than UTF-8 bytes, pictures and
 * files have bounds of their own, and all of it may be written to a cache, unless that has to be asked for and was not.
 * The router asks many times for the same long chat, so the sizes of what cannot change are kept.
 */
export function createExpertBound(
  slot: Slot,
  { cachesOnlyMarked = false }: Expert,
): (input: ToolInput, maxOutputTokens: number) => MeteredUsage {
  const chats = new WeakMap<readonly ChatMessage[], Chat>();
  const evidences = new WeakMap<Evidence, number>();
  return ({ messages, evidence, answerOptions, callTime }, maxOutputTokens) => {
    const chat = kept(chats, messages, measured);
    const unwritten = chat.unwritten ? unwrittenTokens(chat.unwritten, slot) : unpricedIn(answerOptions);
    const promptTokens =
      chat.bytes +
      (unwritten ?? 0) +
      kept(evidences, evidence, evidenceBytes) +
      jsonBytes(answerOptions) +
      allowanceBytes;
    const mark = dearestMark(chat.mark, cacheMarkIn(answerOptions), cachesOnlyMarked ? 'none' : 'usual');
    const { longestMs: durationMs } = callTime;
    const usage = usageOf({ ...promptUsage(promptTokens, mark), outputTokens: maxOutputTokens, calls: 1, durationMs });
    return { meter: slot.id, usage, ...(unwritten === undefined ? {} : { unwrittenTokens: unwritten }) };
  };
}

function kept<Key extends object, Size>(sizes: WeakMap<Key, Size>, key: Key, measure: (key: Key) => Size): Size {
  const size = sizes.get(key) ?? measure(key);
  sizes.set(key, size);
  return size;
}

function measured(messages: readonly ChatMessage[]): Chat {
  const unwritten = unwrittenIn({ messages });
  return {
    bytes: jsonBytes(messages) - unwritten.inlineBytes,
    mark: cacheMarkIn(messages),
    unwritten: unwritten.pictures > 0 || unwritten.unsized !== undefined ? unwritten : undefined,
  };
}

/** Tools that the upstream runs add to the prompt what nobody knows: nothing can be held for that, nor held against it. */
const unpricedIn = (options: ToolInput['answerOptions']): number | undefined =>
  unwrittenIn(options).unpriced === undefined ? undefined : 0;

const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

function evidenceBytes({ documents, codeRuns, attempts }: Evidence): number {
  const texts = [
    ...documents.map(({ title = '', url = '', text }) => title + url + text),
    ...codeRuns.flatMap(({ code, output }) => [code, output]),
    ...attempts.flatMap(({ slot, text }) => [slot, text]),
  ];
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text) + frameBytes, 0);
}
