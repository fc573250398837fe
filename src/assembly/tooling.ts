import type { Contract } from '../contract/schema.ts';
import type { InferenceEngine } from '../inference/engine.ts';
import type { Slot } from '../preferences/slot.ts';
import { openSandbox } from '../tools/sandbox/open-sandbox.ts';
import type { CodeSandbox } from '../tools/sandbox/sandbox.ts';
import type { Tool } from '../tools/tool.ts';
import type { Config } from './config.ts';
import { type ModelsPlace, openEngine } from './engines.ts';
import { openSources } from './sources.ts';
import { toolFor } from './tools.ts';
import { type ConnectedUpstream, connectUpstreams, type Patience } from './upstreams.ts';

/** Everything that the loop can call, and what it is made of. */
export interface Tooling {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly upstreams: ReadonlyMap<string, ConnectedUpstream>;
  /** What is there, and what is missing and why. */
  readonly notes: readonly string[];
  close(): Promise<void>;
}

export interface ToolingOptions {
  readonly config: Config;
  readonly slots: readonly Slot[];
  readonly contract: Contract;
  readonly place: ModelsPlace;
  readonly patience: Patience;
}

/** Opens engines, sandbox, indexes and upstreams. What cannot be opened leaves its slots out and says why. */
export async function openTooling(options: ToolingOptions): Promise<Tooling> {
  const { config, slots, contract, patience } = options;
  const notes: string[] = [];
  const { sources, notes: sourceNotes } = await openSources(config);
  notes.push(...sourceNotes);
  const sandbox = await openConfiguredSandbox(config, notes);
  const upstreams = connectUpstreams(config, patience);
  // Last, because these are processes: whatever else is wrong must have said so before.
  const engines = await openEngines(config, options.place, notes);
  const parts = { config, contract, upstreams, engines, sources, sandbox, patience };
  const tools = new Map<string, Tool>();
  for (const slot of slots) {
    const tool = toolFor(slot, slots, parts);
    if (tool) tools.set(slot.id, tool);
    else notes.push(`${slot.id} (${slot.model}) is left out: something that it needs is missing`);
  }
  return {
    tools,
    upstreams,
    notes,
    close: async () => {
      await Promise.all([...engines.values()].map((engine) => engine.close()));
      await Promise.all([...upstreams.values()].map((upstream) => upstream.close()));
    },
  };
}

async function openConfiguredSandbox({ tools, limits }: Config, notes: string[]): Promise<CodeSandbox | undefined> {
  if (!Object.values(tools).some(({ kind }) => kind === 'sandbox')) return undefined;
  const opened = await openSandbox({ limits: { wallMs: limits.sandbox_wall_ms } });
  if (!opened.available) {
    notes.push(`sandbox: none, so nothing runs code here (${opened.reason})`);
    return undefined;
  }
  const { name, pythonVersion, packages } = opened.sandbox;
  notes.push(`sandbox: ${name}, Python ${pythonVersion}${packages.length > 0 ? ` with ${packages.join(', ')}` : ''}`);
  return opened.sandbox;
}

async function openEngines(
  config: Config,
  place: ModelsPlace,
  notes: string[],
): Promise<ReadonlyMap<string, InferenceEngine>> {
  const engines = new Map<string, InferenceEngine>();
  for (const [name, { path, context, sequences, device, threads }] of Object.entries(config.models)) {
    const opened = await openEngine({ model: path, contextTokens: context, sequences, device, threads }, place);
    notes.push(`${name}: ${opened.note}`);
    if (opened.engine) engines.set(name, opened.engine);
  }
  return engines;
}
