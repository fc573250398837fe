import { randomInt } from 'node:crypto';
import { z } from 'zod';
import { usageOf } from '../cost/usage.ts';
import {
  EngineFailure,
  type EngineFailureKind,
  type GenerateEvent,
  type InferenceEngine,
  type ToolUse,
} from '../inference/engine.ts';
import { type ChatEvent, type FailureKind, UpstreamFailure } from '../upstream/chat.ts';
import type { Expert, ExpertRequest } from './expert.ts';

/** How a model is sampled where a request says nothing of it. */
export interface UsualSampling {
  readonly temperature: number;
  readonly topP: number;
  readonly frequencyPenalty: number;
}

/** A GGUF of our own as an expert. Of the client's options it knows those of sampling and tools; odd values count as left out. */
export function createLocalExpert(engine: InferenceEngine, usual: UsualSampling): Expert {
  async function* complete(request: ExpertRequest): AsyncGenerator<ChatEvent, void> {
    const { messages, maxOutputTokens: maxTokens, options, privateTo, callTime, signal } = request;
    const asked = { ...samplingOf(options, usual), toolUse: toolUseOf(options) };
    if (asked.toolUse && asked.jsonSchema !== undefined) throw schemaBesideTools();
    callTime?.start();
    try {
      const events = engine.generate({ messages, maxTokens, ...asked, privateTo, signal });
      for await (const event of events) yield toChatEvent(event);
    } catch (thrown) {
      throw thrown instanceof EngineFailure ? toUpstreamFailure(thrown) : thrown;
    } finally {
      callTime?.stop();
    }
  }
  return { complete };
}

const sampling = z.object({
  temperature: z.number().min(0).max(2).optional().catch(undefined),
  top_p: z.number().gt(0).max(1).optional().catch(undefined),
  presence_penalty: z.number().min(-2).max(2).optional().catch(undefined),
  frequency_penalty: z.number().min(-2).max(2).optional().catch(undefined),
  stop: z
    .union([z.string().transform((word) => [word]), z.array(z.string())])
    .transform((words) => words.filter((word) => word !== ''))
    .catch([]),
  seed: z.int().nonnegative().optional().catch(undefined),
  response_format: z
    .discriminatedUnion('type', [
      z.object({ type: z.literal('json_schema'), json_schema: z.object({ schema: z.unknown() }) }),
      z.object({ type: z.literal('json_object') }),
    ])
    .transform((format) => (format.type === 'json_schema' ? format.json_schema.schema : { type: 'object' }))
    .optional()
    .catch(undefined),
  logprobs: z.boolean().catch(false),
  top_logprobs: z.int().min(0).max(20).catch(0),
});

function samplingOf(options: Readonly<Record<string, unknown>>, usual: UsualSampling) {
  const parsed = sampling.parse(options);
  const { temperature = usual.temperature, top_p: topP = usual.topP } = parsed;
  const { presence_penalty: presencePenalty, frequency_penalty: frequencyPenalty = usual.frequencyPenalty } = parsed;
  const { stop, seed = randomInt(2 ** 31), response_format: jsonSchema } = parsed;
  const topLogprobs = parsed.logprobs ? parsed.top_logprobs : undefined;
  return { temperature, topP, presencePenalty, frequencyPenalty, stop, seed, jsonSchema, topLogprobs };
}

const functionTool = z.object({
  type: z.literal('function'),
  function: z.object({
    name: z.string(),
    description: z.string().optional(),
    parameters: z.unknown().optional(),
    strict: z
      .boolean()
      .nullish()
      .transform((strict) => strict ?? false),
  }),
});

const toolOptions = z.object({
  tools: z
    .array(functionTool.nullable().catch(null))
    .transform((tools) => tools.filter((tool) => tool !== null))
    .catch([]),
  tool_choice: z
    .union([
      z.enum(['none', 'auto', 'required']),
      z.object({ function: z.object({ name: z.string() }) }).transform((choice) => choice.function),
    ])
    .catch('auto'),
  parallel_tool_calls: z.boolean().catch(true),
});

function toolUseOf(options: Readonly<Record<string, unknown>>): ToolUse | undefined {
  const { tools, tool_choice: choice, parallel_tool_calls: parallel } = toolOptions.parse(options);
  if (tools.length === 0 || choice === 'none') return undefined;
  return { tools: tools.map((tool) => tool.function), choice, parallel };
}

function toChatEvent(event: GenerateEvent): ChatEvent {
  if (event.type === 'text') return event;
  if (event.type === 'tool_call') {
    const { id, name, ...piece } = event;
    return { ...piece, ...(id !== undefined && { id }), ...(name !== undefined && { name }) };
  }
  const { promptTokens, cachedTokens, outputTokens } = event.usage;
  const usage = usageOf({ inputTokens: promptTokens, cacheReadTokens: cachedTokens, outputTokens, calls: 1 });
  return { type: 'end', finishReason: event.finishReason, usage };
}

const failures: Record<EngineFailureKind, readonly [FailureKind, string]> = {
  unavailable: ['server_error', 'The local model is not available'],
  busy: ['rate_limited', 'The local model is busy'],
  context_full: ['context_length_exceeded', 'The request is too long for the local model'],
  invalid: ['rejected', 'The local model cannot take this request'],
  schema: ['schema_refused', 'The local model cannot be held to this schema'],
  crashed: ['server_error', 'The local model crashed'],
};

/** The engine's own message stays in the cause, since it may name files of this machine; of a schema it tells the fault. */
function toUpstreamFailure(failure: EngineFailure): UpstreamFailure {
  const [kind, sentence] = failures[failure.kind];
  const reason = failure.kind === 'schema' ? { reason: failure.message } : {};
  return new UpstreamFailure(kind, `${sentence}.`, { cause: failure, ...reason });
}

const schemaBesideTools = (): UpstreamFailure =>
  new UpstreamFailure('schema_refused', `${failures.schema[1]}.`, {
    reason: 'It takes tools or a schema in one request, not both: leave one of them out.',
  });
