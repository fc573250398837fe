import { type Usage, usageOf } from '../cost/usage.ts';
import type { CacheMark } from './cache-marks.ts';

/**
 * OpenAI's usage object as disjoint counts, defended against what upstreams really send: missing, negative and broken
 * numbers, and reasoning that is counted beside the completion instead of inside it. Never fewer tokens than claimed.
 */
export function usageFromWire(raw: unknown): Usage | undefined {
  const wire = record(raw);
  if (typeof wire['prompt_tokens'] !== 'number' && typeof wire['completion_tokens'] !== 'number') return undefined;
  const prompt = count(wire['prompt_tokens']);
  const completion = count(wire['completion_tokens']);
  const details = record(wire['prompt_tokens_details']);
  const cacheRead = Math.min(prompt, count(details['cached_tokens'] ?? wire['prompt_cache_hit_tokens']));
  const cacheWrite = Math.min(prompt - cacheRead, count(details['cache_write_tokens']));
  const reasoning = count(record(wire['completion_tokens_details'])['reasoning_tokens']);
  const beside = count(wire['total_tokens']) - prompt - completion;
  return usageOf({
    inputTokens: prompt - cacheRead - cacheWrite,
    cacheReadTokens: cacheRead,
    cacheWriteTokens: cacheWrite,
    ...splitCompletion(completion, reasoning, beside),
    calls: 1,
  });
}

/** The Responses API says the same under other names. */
export function usageFromResponses(raw: unknown): Usage | undefined {
  const wire = record(raw);
  return usageFromWire({
    prompt_tokens: wire['input_tokens'],
    completion_tokens: wire['output_tokens'],
    total_tokens: wire['total_tokens'],
    prompt_tokens_details: wire['input_tokens_details'],
    completion_tokens_details: wire['output_tokens_details'],
  });
}

/**
 * Anthropic's counts, which are disjoint already and never shrink: of several reports each count's highest stands, since
 * some servers know the input only at the end. Thinking is inside the output and not told apart.
 * @param mark what the request asked for: the lifetime of writes where the server does not tell it.
 */
export function usageFromAnthropic(reports: readonly unknown[], mark: CacheMark = 'none'): Usage | undefined {
  const wires = reports
    .map(record)
    .filter((wire) => typeof (wire['input_tokens'] ?? wire['output_tokens']) === 'number');
  if (wires.length === 0) return undefined;
  const most = (key: string, of = wires) => Math.max(...of.map((wire) => count(wire[key])));
  const byLifetime = wires.map(({ cache_creation: writes }) => record(writes));
  const short = most('ephemeral_5m_input_tokens', byLifetime);
  const long = most('ephemeral_1h_input_tokens', byLifetime);
  const untold = Math.max(0, most('cache_creation_input_tokens') - short - long);
  return usageOf({
    inputTokens: most('input_tokens'),
    cacheReadTokens: most('cache_read_input_tokens'),
    cacheWriteTokens: short + (mark === 'hour' ? 0 : untold),
    cacheWriteHourTokens: long + (mark === 'hour' ? untold : 0),
    outputTokens: most('output_tokens'),
    calls: 1,
  });
}

/** `beside` is what the total has over prompt and completion: reasoning, at upstreams that keep it apart. */
function splitCompletion(completion: number, reasoning: number, beside: number) {
  if (beside > 0 && beside >= reasoning) return { outputTokens: completion, reasoningTokens: beside };
  if (reasoning > completion) return { outputTokens: completion, reasoningTokens: reasoning };
  return { outputTokens: completion - reasoning, reasoningTokens: reasoning };
}

/** Far beyond any model's window, far below where sums of money stop being exact. */
const mostTokens = 1_000_000_000;

function count(value: unknown): number {
  if (typeof value !== 'number' || Number.isNaN(value)) return 0;
  return Math.min(mostTokens, Math.max(0, Math.ceil(value)));
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}; // Any key may be asked.
}
