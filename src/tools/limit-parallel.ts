import type { ChatDelta } from '../upstream/chat.ts';
import { createLanes } from './lanes.ts';
import type { Tool, ToolInput, ToolOutcome } from './tool.ts';

/** So many calls of a slot at a time, whoever makes them: its own tool, or a search whose query its expert writes. */
export interface CallLimit {
  readonly parallel: number;
  /** Whoever has entered must leave. Undefined when no call ended soon enough, or the signal fired first. */
  enter(signal: AbortSignal): Promise<(() => void) | undefined>;
}

export function createCallLimit(parallel: number, waitMs = 30_000): CallLimit {
  const lanes = createLanes(parallel);
  return {
    parallel,
    enter: (signal) => lanes.enter(AbortSignal.any([signal, AbortSignal.timeout(waitMs)])).catch(() => undefined),
  };
}

/**
 * Holds a tool to a limit. A call that waits too long fails, so that the run can go elsewhere, and so does one whose run
 * is over meanwhile: a cancelled call would be booked, and this one was never made.
 */
export function limitParallel(tool: Tool, limit: CallLimit): Tool {
  const reason = `busy: it takes ${limit.parallel} calls at a time, and none ended soon enough`;
  const busy: ToolOutcome = {
    observation: { kind: 'failed', reason, retryable: true, failure: 'rate_limited' },
    usage: [],
  };

  async function* execute(input: ToolInput): AsyncGenerator<ChatDelta, ToolOutcome> {
    const leave = await limit.enter(input.signal);
    if (!leave) return busy;
    try {
      return yield* tool.execute(input);
    } finally {
      leave();
    }
  }
  return { ...tool, execute };
}
