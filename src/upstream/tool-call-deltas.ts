import { randomUUID } from 'node:crypto';
import type { ToolCallDelta } from './chat.ts';

/** A piece of a tool call as an upstream sent it; nothing in it can be relied on. */
export interface WireToolCallPiece {
  readonly index?: number | undefined;
  readonly id?: string | undefined;
  readonly function?: { readonly name?: string | undefined; readonly arguments?: unknown } | undefined;
}

interface OpenCall {
  readonly index: number;
  readonly wireIndex: number | undefined;
  wireId: string | undefined;
  name: string | undefined;
  arguments: string;
  /** Nothing of a call is handed on before its name is known. */
  announced: boolean;
}

interface ToolCallDeltas {
  /** True once a call with a name was seen. */
  readonly any: boolean;
  /** True when arguments broke off, whatever reason the upstream gives for its end. */
  readonly truncated: boolean;
  push(piece: WireToolCallPiece): ToolCallDelta[];
  /** What calls without arguments still need to be JSON. */
  close(): ToolCallDelta[];
}

/**
 * Repairs what upstreams do to tool calls: index missing, always zero or starting anywhere; id missing, late or
 * repeated; name repeated or empty; arguments as an object; two calls under one index. What comes out has dense
 * indices, and id and name exactly once, on the first delta of a call.
 */
export function createToolCallDeltas(): ToolCallDeltas {
  const calls: OpenCall[] = [];

  function callFor(piece: WireToolCallPiece, addition: string): OpenCall {
    const known = knownCall(calls, piece);
    if (known && !startsAnother(known, piece, addition)) return known;
    const call: OpenCall = {
      index: calls.length,
      wireIndex: piece.index,
      wireId: piece.id || undefined,
      // Another object under one index calls the same function again; another id brings its own name.
      name: piece.id ? undefined : known?.name,
      arguments: '',
      announced: false,
    };
    calls.push(call);
    return call;
  }

  return {
    get any() {
      return calls.some((call) => call.announced);
    },
    get truncated() {
      return calls.some((call) => call.arguments !== '' && !isJson(call.arguments));
    },
    close: () =>
      calls
        .filter((call) => call.announced && call.arguments === '')
        .map(({ index }) => ({ type: 'tool_call', index, argumentsDelta: '{}' })),
    push(piece) {
      const addition = argumentText(piece.function?.arguments);
      const call = callFor(piece, addition);
      call.wireId ??= piece.id || undefined;
      if (!call.announced) call.name = piece.function?.name || call.name;
      call.arguments += addition;
      if (call.name === undefined) return [];
      if (call.announced) {
        return addition ? [{ type: 'tool_call', index: call.index, argumentsDelta: addition }] : [];
      }
      call.announced = true;
      return [
        {
          type: 'tool_call',
          index: call.index,
          id: call.wireId ?? `call_${randomUUID().replaceAll('-', '').slice(0, 24)}`,
          name: call.name,
          argumentsDelta: call.arguments,
        },
      ];
    },
  };
}

/** By id where there is one, else by index, else the latest. A call that has no id yet may be given one late. */
function knownCall(calls: readonly OpenCall[], piece: WireToolCallPiece): OpenCall | undefined {
  const byId = piece.id ? calls.find((call) => call.wireId === piece.id) : undefined;
  if (byId) return byId;
  const sameIndex = (call: OpenCall) => piece.index === undefined || call.wireIndex === piece.index;
  return calls.findLast(sameIndex);
}

/** Another id, or new arguments after complete ones, mean another call although the index says the same. */
function startsAnother(known: OpenCall, piece: WireToolCallPiece, addition: string): boolean {
  if (piece.id && known.wireId === piece.id) return false;
  if (piece.id && known.wireId !== undefined) return true;
  return addition.trimStart().startsWith('{') && known.arguments.trimEnd().endsWith('}') && isJson(known.arguments);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function argumentText(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
