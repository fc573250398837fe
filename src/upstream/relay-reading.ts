import type { Usage } from '../cost/usage.ts';
import { failureInAnswer, failureOf } from './failure.ts';
import { isObject, type JsonObject } from './relay-request.ts';
import { dataOf, splitFrames } from './sse.ts';
import { usageFromWire } from './wire-usage.ts';

export type ChunkEvent =
  | { readonly type: 'frames'; readonly bytes: Buffer }
  | { readonly type: 'finish'; readonly chunk: JsonObject };

/** What is known so far of one relayed stream. */
export interface RelayReading {
  /** A first token was seen. */
  readonly begun: boolean;
  /** `[DONE]` was read. */
  readonly done: boolean;
  /** A finish reason or `[DONE]` was read, so whatever happens to the connection now costs the client nothing. */
  readonly complete: boolean;
  readonly usage: Usage | undefined;
  /** A chunk of its own around the latest usage, wherever the upstream had put it. */
  readonly usageChunk: JsonObject | undefined;
  /**
   * Reads whole frames. Most are handed on untouched and unparsed: this is the path that throughput depends on.
   * @throws UpstreamFailure for an error event or a broken frame.
   */
  read(region: Buffer): Generator<ChunkEvent, void>;
}

/**
 * A line that must be looked at: not a plain data line with one object, or with usage, an error or a finish reason.
 * The quotes tell keys from the same words inside text, where they are escaped.
 */
const remarkable = /^(?!data: ?\{)[^\r\n]|[^}\r\n]$|"usage"\s*:\s*\{|"error"\s*:|"finish_reason"\s*:\s*"/m;
const token = /"(?:content|reasoning_content|reasoning|refusal|arguments|text|name)"\s*:\s*"[^"]/;

export function createRelayReading(): RelayReading {
  const state = { begun: false, done: false, finished: false };
  let usage: Usage | undefined;
  let usageChunk: JsonObject | undefined;

  /** Takes usage out of a chunk; what is left is undefined when the chunk was there for nothing else. */
  function withoutUsage(chunk: JsonObject): JsonObject | undefined {
    const { usage: wire, error: _, ...rest } = chunk;
    const read = usageFromWire(wire);
    if (!read) return rest;
    usage = read;
    usageChunk = { ...rest, choices: [], usage: wire };
    return Array.isArray(chunk['choices']) && chunk['choices'].length > 0 ? rest : undefined;
  }

  function eventOf(data: string): ChunkEvent | undefined {
    const chunk = parseObject(data);
    if (!chunk) throw failureOf('malformed', usage);
    const rest = withoutUsage(chunk);
    if (isPresent(chunk['error'])) throw failureInAnswer(chunk['error'], usage);
    if (!rest) return undefined;
    if (!hasFinishReason(rest)) return { type: 'frames', bytes: Buffer.from(`data: ${JSON.stringify(rest)}\n\n`) };
    state.finished = true;
    return { type: 'finish', chunk: rest };
  }

  function* readEach(region: Buffer): Generator<ChunkEvent, void> {
    for (const frame of splitFrames(region)) {
      const data = dataOf(frame);
      state.done ||= data?.startsWith('[DONE]') === true;
      if (state.done) return;
      const event = isRemarkable(frame) ? data && eventOf(data) : ({ type: 'frames', bytes: frame } as const);
      if (event) yield event;
    }
  }

  return {
    get begun() {
      return state.begun;
    },
    get done() {
      return state.done;
    },
    get complete() {
      return state.done || state.finished;
    },
    get usage() {
      return usage;
    },
    get usageChunk() {
      return usageChunk;
    },
    *read(region) {
      if (region.length === 0 || state.done) return;
      state.begun ||= token.test(asText(region));
      if (isRemarkable(region)) yield* readEach(region);
      else yield { type: 'frames', bytes: region };
    },
  };
}

/** One character a byte: enough to look for ASCII, and far cheaper than decoding. */
const asText = (bytes: Buffer): string => bytes.toString('latin1');
const isRemarkable = (bytes: Buffer): boolean => remarkable.test(asText(bytes));

function parseObject(data: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(data);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const hasFinishReason = ({ choices }: JsonObject): boolean =>
  Array.isArray(choices) && choices.some((choice: unknown) => isObject(choice) && isPresent(choice['finish_reason']));

const isPresent = (value: unknown): boolean => value !== undefined && value !== null && value !== '';
