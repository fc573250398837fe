import type { Tool, ToolInput, ToolOutcome } from '../tools/tool.ts';
import type { ChatDelta } from '../upstream/chat.ts';
import type { RunEvent } from './run.ts';

/** How far the client hears an answer while it is being written. */
export type Hearing =
  /** Every delta at once. */
  | 'live'
  /** Only once the answer is known to be whole. */
  | 'whole'
  /** Not at all: an attempt is kept. */
  | 'kept';

/** Reads a tool's answer as it is written and passes on what the client may hear. */
export interface AnswerWriter {
  /** In UTF-8, of all that was written so far: what estimates of tokens go by. */
  readonly bytes: () => number;
  /** Something has reached the client that cannot be taken back. */
  readonly committed: () => boolean;
  relay(tool: Tool, input: ToolInput): AsyncGenerator<RunEvent, ToolOutcome>;
  /** What was held back until now. */
  flush(): Generator<RunEvent>;
}

export function createAnswerWriter(hearing: Hearing): AnswerWriter {
  const held: RunEvent[] = [];
  let written = 0;
  let committed = false;

  async function* relay(tool: Tool, input: ToolInput): AsyncGenerator<RunEvent, ToolOutcome> {
    const execution = tool.execute(input);
    try {
      for (;;) {
        const step = await execution.next();
        if (step.done) return step.value;
        written += bytesOf(step.value);
        const event: RunEvent = { type: 'answer-delta', delta: step.value };
        if (hearing === 'whole') held.push(event);
        if (hearing !== 'live') continue;
        committed ||= step.value.type !== 'reasoning';
        yield event;
      }
    } finally {
      await execution.return(abandoned);
    }
  }

  return {
    bytes: () => written,
    committed: () => committed,
    relay,
    *flush() {
      yield* held;
    },
  };
}

/** Only to end a generator that nobody reads any more. */
const abandoned: ToolOutcome = { observation: { kind: 'failed', reason: 'abandoned', retryable: false }, usage: [] };

const bytesOf = (delta: ChatDelta): number =>
  Buffer.byteLength(delta.type === 'tool_call' ? `${delta.name ?? ''}${delta.argumentsDelta}` : delta.text);
