import type { Token } from 'node-llama-cpp';
import { markup } from '../contract/segment.ts';
import type { GenerateEvent } from './engine.ts';
import type { LogprobRecorder } from './logprobs.ts';
import { stopFilter, tokenDecoder } from './text-stream.ts';
import type { ModelTokens } from './tokens.ts';
import { callClose, callOpen, type Read, type ToolCallReader } from './tool-call-reader.ts';

/** Tokens in; text and calls out, up to a stop string in the text. */
export class TextWriter {
  readonly #decoder;
  readonly #filter;
  readonly #calls: ToolCallReader | undefined;
  readonly #recorder: LogprobRecorder | undefined;
  /** Lengths are of text alone, once it is known what was none. */
  #writtenLength: number;
  #readLength = 0;
  #sentLength = 0;
  #stopped = false;

  constructor(
    stops: readonly string[],
    tokens: ModelTokens,
    calls: ToolCallReader | undefined,
    recorder: LogprobRecorder | undefined,
  ) {
    this.#decoder = tokenDecoder(calls ? withTags(tokens) : tokens.toText);
    this.#filter = stopFilter(stops);
    this.#calls = calls;
    this.#writtenLength = calls?.inCall ? callOpen.length : 0;
    this.#recorder = recorder;
  }

  /** A stop string was met, and nothing follows. */
  get stopped(): boolean {
    return this.#stopped;
  }

  push(token: Token): GenerateEvent[] {
    const text = this.#decoder.push(token);
    this.#writtenLength += text.length;
    this.#recorder?.endsAt(this.#writtenLength);
    return this.#read(text);
  }

  flush(): GenerateEvent[] {
    if (this.#stopped) return [];
    const last = this.#read(this.#decoder.flush());
    const held = (this.#calls?.flush() ?? []).flatMap((read) => this.#filtered(read));
    return [...last, ...held, ...this.#send(this.#filter.flush())];
  }

  #read(text: string): GenerateEvent[] {
    const read: Read[] = this.#calls?.push(text) ?? [{ type: 'text', text, skipped: 0 }];
    return read.flatMap((piece) => this.#filtered(piece));
  }

  #filtered(read: Read): GenerateEvent[] {
    if (this.#stopped) return [];
    if (read.type === 'tool_call') return [read];
    this.#skip(read.skipped);
    this.#readLength += read.text.length;
    const { text, stopped } = this.#filter.push(read.text);
    this.#stopped = stopped;
    return this.#send(text);
  }

  #skip(length: number): void {
    this.#recorder?.skip(this.#readLength, length);
    this.#writtenLength -= length;
  }

  #send(text: string): GenerateEvent[] {
    if (text === '') return [];
    this.#sentLength += text.length;
    return [{ type: 'text', text, ...(this.#recorder && { logprobs: this.#recorder.takeUntil(this.#sentLength) }) }];
  }
}

/** Tags around calls are read as text also where they are control tokens, which have none otherwise. */
function withTags(tokens: ModelTokens): (ids: readonly Token[], before: readonly Token[]) => string {
  const tags = new Map(
    [callOpen, callClose].flatMap((tag) => {
      const [id, ...others] = tokens.ofSegments([markup(tag)]);
      return id !== undefined && others.length === 0 ? [[id, tag] as const] : [];
    }),
  );
  return (ids, before) => {
    const [last] = ids.slice(-1);
    const tag = last === undefined ? undefined : tags.get(last);
    return tag === undefined ? tokens.toText(ids, before) : tokens.toText(ids.slice(0, -1), before) + tag;
  };
}
