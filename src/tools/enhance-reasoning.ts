import type { Observation } from '../contract/evidence.ts';
import { codeMessages, extractPython } from '../contract/expert-messages.ts';
import type { Contract } from '../contract/schema.ts';
import { type MeteredUsage, usageOf } from '../cost/usage.ts';
import type { Slot } from '../preferences/slot.ts';
import { cleanText } from './clean-text.ts';
import type { Expert } from './expert.ts';
import { expertReply } from './expert-call.ts';
import { createExpertBound } from './input-bound.ts';
import type { CodeLimits, CodeResult, CodeSandbox, CodeStatus } from './sandbox/sandbox.ts';
import type { Tool, ToolInput, ToolOutcome } from './tool.ts';

export interface ReasoningToolOptions {
  readonly slot: Slot;
  /** Writes the program. */
  readonly expert: Expert;
  readonly sandbox: CodeSandbox;
  /** What bills the sandbox's time. */
  readonly sandboxMeter?: string;
  readonly contract: Contract;
}

/** Beyond the wall limit: starting the sandbox and clearing it away. */
const startAndEndMs = 5_000;
const outputCodePoints = 20_000;

/** An expert writes Python, the sandbox runs it; what it printed, or how it failed, is the observation. */
export function createReasoningTool(options: ReasoningToolOptions): Tool {
  const { slot, expert, sandbox, sandboxMeter = 'tool:python', contract } = options;
  const expertBound = createExpertBound(slot, expert);
  const outputTokens = (input: ToolInput) => Math.min(input.maxOutputTokens, slot.maxOutputTokens);

  function bound(input: ToolInput): MeteredUsage[] {
    const run = usageOf({ durationMs: sandbox.limits.wallMs + startAndEndMs, calls: 1 });
    return [expertBound(input, outputTokens(input)), { meter: sandboxMeter, usage: run }];
  }

  async function execute(
    { privateTo, callTime, signal, ...input }: ToolInput,
    maxOutputTokens: number,
  ): Promise<ToolOutcome> {
    const material = { ...input, contextTokens: slot.contextTokens, maxOutputTokens };
    const messages = codeMessages(material, sandbox.packages, contract);
    const request = { messages, maxOutputTokens, options: {}, privateTo, callTime, signal };
    const reply = await expertReply(expert, request, slot);
    if (reply.failure) return { observation: reply.failure, usage: [reply.usage] };
    const code = extractPython(reply.text);
    if (code === undefined) return { observation: noProgram, usage: [reply.usage] };
    callTime.start();
    const result = await sandbox.execute({ code, signal }).finally(callTime.stop);
    const run = usageOf({ durationMs: result.durationMs, calls: 1 });
    return {
      observation: observationOf(code, result, sandbox.limits),
      usage: [reply.usage, { meter: sandboxMeter, usage: run }],
    };
  }

  return {
    slot,
    bound,
    // biome-ignore lint/correctness/useYield: only answers are streamed
    async *execute(input) {
      return execute(input, outputTokens(input));
    },
  };
}

const noProgram: Observation = { kind: 'failed', reason: 'The expert wrote no complete program.', retryable: true };

const silent: Observation = { kind: 'failed', reason: 'The program printed nothing.', retryable: true };

/** A crash is information for the next turn; only a sandbox that did not start is a failure. */
function observationOf(code: string, result: CodeResult, limits: CodeLimits): Observation {
  if (result.status === 'unavailable') return { kind: 'failed', reason: 'The sandbox did not start.', retryable: true };
  const ending = endings[result.status](limits);
  const parts = [result.stdout, result.status === 'ok' ? '' : result.stderr, ending === '' ? '' : `[${ending}]`];
  const output = parts
    .map((part) => cleanText(part, outputCodePoints))
    .filter((part) => part !== '')
    .join('\n');
  return output === '' ? silent : { kind: 'code_run', run: { code, output } };
}

const endings: Record<Exclude<CodeStatus, 'unavailable'>, (limits: CodeLimits) => string> = {
  ok: () => '',
  exception: () => '',
  timeout: ({ wallMs }) => `stopped: ran longer than ${wallMs / 1000} s`,
  killed: ({ cpuSeconds }) => `killed: used more than ${cpuSeconds} s of processor time, or crashed`,
  output_limit: ({ outputBytes }) => `stopped: printed more than ${outputBytes} bytes`,
};
