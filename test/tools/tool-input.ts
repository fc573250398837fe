import { noEvidence } from '../../src/contract/evidence.ts';
import type { Tool, ToolInput, ToolOutcome } from '../../src/tools/tool.ts';
import { createCallTime } from '../../src/upstream/call-time.ts';
import type { ChatDelta } from '../../src/upstream/chat.ts';

export const inputOf = (problem: string, part: Partial<ToolInput> = {}): ToolInput => ({
  problem,
  messages: [{ role: 'user', content: problem }],
  evidence: noEvidence,
  privacy: 'any',
  admitsSource: () => true,
  privateTo: undefined,
  maxOutputTokens: 500,
  answerOptions: {},
  callTime: createCallTime(60_000),
  signal: new AbortController().signal,
  ...part,
});

export interface Execution {
  readonly deltas: ChatDelta[];
  readonly outcome: ToolOutcome;
}

export async function executed(tool: Tool, input: ToolInput): Promise<Execution> {
  const deltas: ChatDelta[] = [];
  const execution = tool.execute(input);
  for (;;) {
    const step = await execution.next();
    if (step.done) return { deltas, outcome: step.value };
    deltas.push(step.value);
  }
}
