import { randomUUID } from 'node:crypto';
import type { ToolCallPiece } from './engine.ts';
import { overlap } from './text-stream.ts';

export const callOpen = '<tool_call>';
export const callClose = '</tool_call>';

export interface TextPiece {
  readonly type: 'text';
  readonly text: string;
  /** Characters between the text before and this one: calls, and the space around them. */
  readonly skipped: number;
}

export type Read = TextPiece | ToolCallPiece;

/** What stands before the arguments of a call. */
const head = /^\s*\{\s*"name"\s*:\s*"([^"\\]+)"\s*,\s*"arguments"\s*:\s*(?=\{)/;

/**
 * Finds calls in what a model writes, `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, and gives their arguments out
 * as they come. What only looks like a call is text.
 */
export class ToolCallReader {
  #inCall: boolean;
  #held = '';
  #readLength: number;
  #textEnd = 0;
  #calls = 0;
  #opened = 0;
  #call: { readonly json: JsonEnd } | undefined;

  /** @param inCall the first call has been opened for the model. */
  constructor(inCall: boolean) {
    this.#inCall = inCall;
    this.#readLength = inCall ? callOpen.length : 0;
  }

  get inCall(): boolean {
    return this.#inCall;
  }

  /** Tags so far that opened one. */
  get opened(): number {
    return this.#opened;
  }

  /** Finished ones. */
  get calls(): number {
    return this.#calls;
  }

  push(text: string): Read[] {
    this.#held += text;
    this.#readLength += text.length;
    const read: Read[] = [];
    for (let before = -1; before !== this.#held.length; ) {
      before = this.#held.length;
      read.push(...(this.#inCall ? this.#readCall() : this.#readText()));
    }
    return read;
  }

  /** What was held back for a tag that never came. */
  flush(): Read[] {
    const rest = this.#held;
    this.#held = '';
    if (this.#call || (rest.trim() === '' && this.#calls > 0)) return [];
    return this.#text(this.#inCall ? callOpen + rest : rest);
  }

  /** Line breaks around calls are part of their form, so space is held back until it is known what follows. */
  #readText(): Read[] {
    const at = this.#held.indexOf(callOpen);
    const end = at < 0 ? this.#held.length - overlap(this.#held, callOpen) : at;
    const said = this.#held.slice(0, end).trimEnd();
    this.#held = this.#held.slice(said.length);
    const text = this.#text(said);
    this.#inCall = at >= 0;
    if (this.#inCall) {
      this.#held = this.#held.slice(at - said.length + callOpen.length);
      this.#opened += 1;
    }
    return text;
  }

  #readCall(): Read[] {
    const read: Read[] = [];
    if (!this.#call) {
      const found = head.exec(this.#held);
      if (found) {
        this.#held = this.#held.slice(found[0].length);
        this.#call = { json: new JsonEnd() };
        read.push({
          type: 'tool_call',
          index: this.#calls,
          id: `call_${newId()}`,
          name: found[1] ?? '',
          argumentsDelta: '',
        });
      }
    }
    if (this.#call) read.push(...this.#readArguments(this.#call.json));
    const at = this.#held.indexOf(callClose);
    if (at >= 0) read.push(...this.#close(at));
    return read;
  }

  #readArguments(json: JsonEnd): Read[] {
    if (json.isOver) return [];
    const argumentsDelta = this.#held.slice(0, json.push(this.#held));
    this.#held = this.#held.slice(argumentsDelta.length);
    return argumentsDelta === '' ? [] : [{ type: 'tool_call', index: this.#calls, argumentsDelta }];
  }

  #close(at: number): Read[] {
    const unread = this.#held.slice(0, at);
    this.#held = this.#held.slice(at + callClose.length);
    this.#inCall = false;
    const isCall = this.#call !== undefined;
    this.#call = undefined;
    if (isCall) this.#calls += 1;
    return isCall ? [] : this.#text(callOpen + unread + callClose);
  }

  /** Text that ends where what is held begins. */
  #text(text: string): Read[] {
    if (text === '') return [];
    const end = this.#readLength - this.#held.length;
    const skipped = end - text.length - this.#textEnd;
    this.#textEnd = end;
    return [{ type: 'text', text, skipped }];
  }
}

const newId = (): string => randomUUID().replaceAll('-', '').slice(0, 24);

/** Where an object that comes in pieces is over. */
class JsonEnd {
  #depth = 0;
  #inText = false;
  #isEscaped = false;
  isOver = false;

  /** How many characters of the piece belong to the object. */
  push(piece: string): number {
    for (let at = 0; at < piece.length; at++) {
      if (this.isOver) return at;
      this.#step(piece[at] ?? '');
    }
    return piece.length;
  }

  #step(letter: string): void {
    if (this.#inText) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (letter === '\\') this.#isEscaped = true;
      else if (letter === '"') this.#inText = false;
    } else if (letter === '"') this.#inText = true;
    else if (letter === '{' || letter === '[') this.#depth += 1;
    else if (letter === '}' || letter === ']') {
      this.#depth -= 1;
      this.isOver = this.#depth === 0;
    }
  }
}
