import type { ChatDelta } from '../upstream/chat.ts';
import { createLanes } from './lanes.ts';
import type { Tool, ToolInput, ToolOutcome } from './tool.ts';

/**
 * Lets so many calls of a tool go on at a time. One that waits too long fails, so that the run can go elsewhere, and so
 * does one whose run is over meanwhile: a cancelled call would be booked, and this one was never made.
 */
export function limitParallel(tool: Tool, parallel: number, waitMs = 30_000): Tool {
  const lanes = createLanes(parallel);
  const reason = `busy: it takes ${parallel} calls at a time, and none ended soon enough`;
  const busy: ToolOutcome = {
    observation: { kind: 'failed', reason, retryable: true, failure: 'rate_limited' },
    usage: [],
  };

  async function* execute(input: ToolInput): AsyncGenerator<ChatDelta, ToolOutcome> {
    const patience = AbortSignal.any([input.signal, AbortSignal.timeout(waitMs)]);
    const leave = await lanes.enter(patience).catch(() => undefined);
    if (!leave) return busy;
    try {
      return yield* tool.execute(input);
    } finally {
      leave();
    }
  }
  return { ...tool, execute };
}
