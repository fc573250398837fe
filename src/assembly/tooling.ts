import type { Contract } from '../contract/schema.ts';
import type { Embedder } from '../inference/embedder.ts';
import type { InferenceEngine } from '../inference/engine.ts';
import type { Slot } from '../preferences/slot.ts';
import type { ProblemReader } from '../router/policies/problem-reading.ts';
import { openSandbox } from '../tools/sandbox/open-sandbox.ts';
import type { CodeSandbox } from '../tools/sandbox/sandbox.ts';
import type { Tool } from '../tools/tool.ts';
import type { Config } from './config.ts';
import { openEmbeddings } from './embedding.ts';
import { type ModelsPlace, openEngine } from './engines.ts';
import { openSources } from './sources.ts';
import { callLimitsOf, toolFor } from './tools.ts';
import { type ConnectedUpstream, connectUpstreams, type Patience } from './upstreams.ts';

/** Everything that the loop can call, and what it is made of. */
export interface Tooling {
  readonly tools: ReadonlyMap<string, Tool>;
  /** Those that have a tool, as they turned out to be. */
  readonly slots: readonly Slot[];
  readonly upstreams: ReadonlyMap<string, ConnectedUpstream>;
  /** Local models that run, by their names in `models`. */
  readonly engines: ReadonlyMap<string, InferenceEngine>;
  /** Sentence embeddings, by their names in `embeddings`. */
  readonly embedders: ReadonlyMap<string, Embedder>;
  /** Undefined without an embedding. */
  readonly readProblem: ProblemReader | undefined;
  /** What is there, and what is missing and why; grows while documents are being embedded. */
  readonly notes: string[];
  close(): Promise<void>;
}

export interface ToolingOptions {
  readonly config: Config;
  readonly slots: readonly Slot[];
  readonly contract: Contract;
  readonly place: ModelsPlace;
  /** Whether to start the bundled sentence embedding. */
  readonly embed: boolean;
  readonly patience: Patience;
}

/** Opens engines, sandbox, indexes and upstreams. What cannot be opened leaves its slots out and says why. */
export async function openTooling(options: ToolingOptions): Promise<Tooling> {
  const { config, slots, contract, patience } = options;
  const notes: string[] = [];
  const embeddings = await openEmbeddings(config, options.place.folder, options.embed, notes);
  const opened = await openSources(config, embeddings, notes).catch(async (error: unknown) => {
    await embeddings.close();
    throw error;
  });
  const { sources } = opened;
  const sandboxes = await openSandboxes(config, notes);
  const upstreams = connectUpstreams(config, patience);
  // Last, because these are processes: whatever else is wrong must have said so before.
  const engines = await openEngines(config, options.place, notes);
  const callLimits = callLimitsOf(config);
  const parts = { config, contract, upstreams, engines, sources, sandboxes, callLimits, patience };
  const tools = new Map<string, Tool>();
  const able = slots.map((slot) => withoutUnknownTools(slot, config, engines, notes));
  for (const slot of able) {
    const tool = toolFor(slot, able, parts);
    if (tool) tools.set(slot.id, tool);
    else notes.push(`${slot.id} (${slot.model}) is left out: something that it needs is missing`);
  }
  return {
    tools,
    slots: able.filter(({ id }) => tools.has(id)),
    upstreams,
    engines,
    embedders: embeddings.named,
    readProblem: embeddings.readProblem,
    notes,
    close: async () => {
      for (const sandbox of sandboxes.values()) sandbox.close();
      await Promise.all([...engines.values()].map((engine) => engine.close()));
      opened.close();
      await embeddings.close();
      await Promise.all([...upstreams.values()].map((upstream) => upstream.close()));
    },
  };
}

/** Whether a local model takes the client's tools is known once it is loaded; then it is a limit like any other. */
function withoutUnknownTools(
  slot: Slot,
  config: Config,
  engines: ReadonlyMap<string, InferenceEngine>,
  notes: string[],
): Slot {
  const entry = config.slots[slot.id];
  const engine = entry && 'local' in entry ? engines.get(entry.local ?? '') : undefined;
  if (!slot.clientTools || engine === undefined || engine.info.takesTools) return slot;
  notes.push(`${slot.id} (${slot.model}) gets no request with tools: its chat template knows none`);
  return { ...slot, clientTools: false };
}

async function openSandboxes({ tools, limits }: Config, notes: string[]): Promise<ReadonlyMap<string, CodeSandbox>> {
  const sandboxes = new Map<string, CodeSandbox>();
  for (const [id, tool] of Object.entries(tools)) {
    if (tool.kind !== 'sandbox') continue;
    const { backend, accept_weak_isolation: acceptWeakIsolation } = tool;
    const opened = await openSandbox({ backend, acceptWeakIsolation, limits: { wallMs: limits.sandbox_wall_ms } });
    if (!opened.available) {
      notes.push(`${id}: no sandbox, so nothing runs code here (${opened.reason})`);
      continue;
    }
    const { name, pythonVersion, packages } = opened.sandbox;
    notes.push(`${id}: ${name}, Python ${pythonVersion}${packages.length > 0 ? ` with ${packages.join(', ')}` : ''}`);
    sandboxes.set(id, opened.sandbox);
  }
  return sandboxes;
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
