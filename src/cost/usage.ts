/**
 * What one call consumed. The counts are disjoint: cached input is not in `inputTokens`, reasoning is not in
 * `outputTokens`. Adapters make them so; nothing else may guess.
 */
export interface Usage {
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  /** Writes that are kept for an hour, which cost more than the usual kind. */
  readonly cacheWriteHourTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly calls: number;
  /** Wall time for which the meter runs (sandboxes, rented machines). */
  readonly durationMs: number;
}

export const noUsage: Usage = {
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  cacheWriteHourTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  calls: 0,
  durationMs: 0,
};

export const usageOf = (part: Partial<Usage>): Usage => ({ ...noUsage, ...part });

/** All that went in, cached or not. */
export const promptTokensOf = (usage: Usage): number =>
  usage.inputTokens +
  usage.cacheReadTokens +
  usage.cacheWriteTokens +
  // Records of runs from before it was counted lack it.
  (usage.cacheWriteHourTokens ?? 0);

/** All that was written, thoughts included. */
export const outputTokensOf = (usage: Usage): number => usage.outputTokens + usage.reasoningTokens;

export function addUsage(left: Usage, right: Usage): Usage {
  return {
    inputTokens: left.inputTokens + right.inputTokens,
    cacheReadTokens: left.cacheReadTokens + right.cacheReadTokens,
    cacheWriteTokens: left.cacheWriteTokens + right.cacheWriteTokens,
    cacheWriteHourTokens: left.cacheWriteHourTokens + right.cacheWriteHourTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    reasoningTokens: left.reasoningTokens + right.reasoningTokens,
    calls: left.calls + right.calls,
    durationMs: left.durationMs + right.durationMs,
  };
}

/**
 * Usage under the meter that bills it. Meters are slot ids (`answer-1`), tools (`tool:tavily`) and the policy
 * (`policy`); only `cost` knows what a meter charges.
 */
export interface MeteredUsage {
  readonly meter: string;
  readonly usage: Usage;
  /** True when upstream gave no figure and the adapter had to estimate it. */
  readonly estimated?: boolean;
  /**
   * Of an upper bound: how much of its input stands for pictures and files, of which nobody knows before what they are
   * billed as; 0 where only what the upstream runs by itself may add to it, undefined where nothing may.
   */
  readonly unwrittenTokens?: number;
}
