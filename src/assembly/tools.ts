import type { Contract } from '../contract/schema.ts';
import type { InferenceEngine } from '../inference/engine.ts';
import type { Slot } from '../preferences/slot.ts';
import { createAnswerTool } from '../tools/answer.ts';
import { createReasoningTool } from '../tools/enhance-reasoning.ts';
import type { Expert } from '../tools/expert.ts';
import { type CallLimit, createCallLimit, limitParallel } from '../tools/limit-parallel.ts';
import { createRemoteExpert } from '../tools/remote-expert.ts';
import type { CodeSandbox } from '../tools/sandbox/sandbox.ts';
import { createSearchTool } from '../tools/search.ts';
import type { SearchSource } from '../tools/search-source.ts';
import type { Tool } from '../tools/tool.ts';
import type { Config, SlotConfig } from './config.ts';
import { localExpert } from './engines.ts';
import { toolMeter } from './prices.ts';
import type { ConnectedUpstream, Patience } from './upstreams.ts';

/** What slots are made of. */
export interface ToolParts {
  readonly config: Config;
  readonly contract: Contract;
  readonly upstreams: ReadonlyMap<string, ConnectedUpstream>;
  /** By the name in `models`; a model that is not here is missing. */
  readonly engines: ReadonlyMap<string, InferenceEngine>;
  /** By the name in `tools`, as are the sandboxes. */
  readonly sources: ReadonlyMap<string, SearchSource>;
  readonly sandboxes: ReadonlyMap<string, CodeSandbox>;
  /** By slot; a slot that is not here takes any number of calls at a time. */
  readonly callLimits: ReadonlyMap<string, CallLimit>;
  readonly patience: Patience;
}

/** One for each slot, shared by all who call it. */
export const callLimitsOf = ({ slots }: Config): ReadonlyMap<string, CallLimit> =>
  new Map(
    Object.entries(slots).flatMap(([id, { parallel }]): [string, CallLimit][] =>
      parallel === undefined ? [] : [[id, createCallLimit(parallel)]],
    ),
  );

/** The tool behind a slot, or undefined when something that it needs is missing. */
export function toolFor(slot: Slot, slots: readonly Slot[], parts: ToolParts): Tool | undefined {
  const config = parts.config.slots[slot.id];
  const tool = config && unlimitedTool(slot, config, slots, parts);
  const limit = parts.callLimits.get(slot.id);
  return tool && limit ? limitParallel(tool, limit) : tool;
}

function unlimitedTool(slot: Slot, config: SlotConfig, slots: readonly Slot[], parts: ToolParts): Tool | undefined {
  const { contract } = parts;
  if (config.role === 'search') return searchTool(slot, config, slots, parts);
  const expert = expertFor(config, parts);
  if (!expert) return undefined;
  if (config.role === 'answer') return createAnswerTool({ slot, expert, contract });
  const sandbox = parts.sandboxes.get(config.sandbox);
  return sandbox && createReasoningTool({ slot, expert, sandbox, sandboxMeter: toolMeter(config.sandbox), contract });
}

function expertFor(slot: SlotConfig, { config, upstreams, engines, patience }: ToolParts): Expert | undefined {
  if (slot.role === 'search') return undefined;
  if (slot.local !== undefined) {
    return localExpert(slot.local, config, engines);
  }
  const upstream = upstreams.get(slot.upstream ?? '');
  if (!upstream || slot.model === undefined) return undefined;
  const { firstTokenTimeoutMs, betweenTokensTimeoutMs } = patience;
  return createRemoteExpert({
    upstream: upstream.chat,
    model: slot.model,
    firstTokenTimeoutMs,
    betweenTokensTimeoutMs,
  });
}

function searchTool(
  slot: Slot,
  config: Extract<SlotConfig, { role: 'search' }>,
  slots: readonly Slot[],
  parts: ToolParts,
): Tool | undefined {
  const sources = config.tools.flatMap((name) => parts.sources.get(name) ?? []);
  if (sources.length === 0) return undefined;
  const writerSlot = slots.find(({ id }) => id === config.writer);
  const writerConfig = config.writer === undefined ? undefined : parts.config.slots[config.writer];
  const expert = writerConfig && expertFor(writerConfig, parts);
  const limit = writerSlot && parts.callLimits.get(writerSlot.id);
  const writer = writerSlot && expert ? { writer: { slot: writerSlot, expert, limit } } : {};
  return createSearchTool({ slot, sources, contract: parts.contract, ...writer });
}
