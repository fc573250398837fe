import { randomBytes } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { loadContract } from '../contract/load.ts';
import type { PriceRow } from '../cost/catalog.ts';
import type { Ledger } from '../cost/ledger.ts';
import type { OrchestraError } from '../errors.ts';
import { builtInProfiles } from '../preferences/profiles.ts';
import type { Slot } from '../preferences/slot.ts';
import { createOrchestrator } from '../router/orchestrate.ts';
import type { Policy } from '../router/policy.ts';
import type { Orchestrator } from '../router/run.ts';
import { createApp } from '../server/app.ts';
import { defaultTimings, type RelayedUpstream, type ServerParts, type SlotHealth } from '../server/parts.ts';
import { type PolicyInUse, settlePolicy } from './bundled-policy.ts';
import type { Config } from './config.ts';
import { gatewayKeys } from './keys.ts';
import { ConfigError } from './load-config.ts';
import { localModels, localName } from './local-relays.ts';
import { type OpenedPolicy, openPolicy } from './policy.ts';
import { createPriceBook, readPriceRows, upstreamBehind } from './prices.ts';
import { relayedUpstream } from './relays.ts';
import { reloadAdapter } from './reload-adapter.ts';
import { openRemotePolicy } from './remote-policy.ts';
import type { Environment } from './settings.ts';
import { slotsFrom } from './slots.ts';
import { openStorage } from './storage.ts';
import { openTooling, type Tooling } from './tooling.ts';
import { type ConnectedUpstream, defaultPatience, type Patience } from './upstreams.ts';
import { warmUp } from './warm-up.ts';

export interface GatewayOptions {
  readonly config: Config;
  /** For keys that are named by a variable. */
  readonly environment: Environment;
  /** Folder of the database. */
  readonly home: string;
  readonly modelsFolder: string;
  readonly patience?: Patience;
  /** Instead of the configured policy: what benchmarks and tests script. */
  readonly policy?: Policy;
  /** False: words alone decide and find, as where the embedding cannot run. */
  readonly embedding?: boolean;
  /** How often to look for the base of the bundled policy; 30 s when left out. */
  readonly recheckMs?: number;
  /** Told what changes after the start, as notes tell what was. */
  readonly announce?: (note: string) => void;
  readonly logger?: ServerParts['logger'];
  readonly timings?: ServerParts['timings'];
}

/** A whole gateway, ready to listen. */
export interface Gateway {
  readonly app: FastifyInstance;
  readonly orchestrator: Orchestrator;
  readonly ledger: Ledger;
  /** What can be chosen: configured and in working order. */
  readonly slots: readonly Slot[];
  /** What decides now. */
  readonly policy: Policy;
  /** Sentences for the operator about what is there and what is missing. */
  readonly notes: readonly string[];
  /** Takes what a trained adapter's file holds now; a sentence says whether it could. */
  reload(): Promise<string>;
  close(): Promise<void>;
}

/**
 * Builds every part from the configuration.
 * @throws ConfigError when something that it names cannot be served as it says.
 */
export async function buildGateway(options: GatewayOptions): Promise<Gateway> {
  const { config, patience = defaultPatience, embedding: embed = true } = options;
  const place = { folder: options.modelsFolder, environment: options.environment };
  const rows = readPriceRows();
  const { slots: configured, problems } = slotsFrom(config, rows, Date.now());
  if (problems.length > 0) throw new ConfigError(problems);
  const keys = gatewayKeys(config, options.environment);
  const log: LateLog = {};
  // Asked when a relayed model is first named, which is after all this.
  const prices = createPriceBook(config, configured, (model) => {
    const [name = '', ...rest] = model.split('/');
    return relays.get(name)?.find(rest.join('/'))?.slot;
  });
  // Before the parts that are processes: a start that fails here leaves nothing behind.
  const storage = openStorage(config, options.home, prices, (meters) => restBehind(meters, config, tooling, log));
  const contract = loadContract('slots-1');
  const tooling = await openTooling({ config, slots: configured, contract, place, patience, embed });
  const remote = openRemotePolicy(config.policy, tooling.upstreams, patience);
  // What is there, told from the start on; the tooling still adds to it.
  const { slots, readProblem, notes } = tooling;
  const knowledge = { readProblem, skillCounts: storage.skillCounts };
  const open = () => openPolicy(config, place, knowledge, remote);
  const inUse = { opened: await openPolicyOr(options.policy, open, tooling) };
  const relays = relaysFrom(config, tooling, rows);
  notes.splice(0, 0, inUse.opened.note, ...storage.notes);

  const parts = {
    slots,
    tools: tooling.tools,
    ledger: storage.ledger,
    runs: storage.runs,
    prices,
    contract,
    maxTurns: config.limits.max_turns,
    runTimeoutMs: config.limits.run_timeout_ms,
    now: Date.now,
    onError: (error: OrchestraError, runId: string) => logFailure(error, runId, log.app),
  };
  const orchestrator = createOrchestrator(parts, () => inUse.opened);
  const app = createApp({
    ...{ orchestrator, ...storage, prices, slots, relays, keys },
    slotHealth: (id) => slotHealth(id, config, tooling.upstreams),
    policy: () => inUse.opened.policy.name,
    readiness: () => ({ ready: slots.some(({ role }) => role === 'answer') || relays.size > 0, notes }),
    ...servingFacts(options),
  });
  log.app = app;
  const settling = settlePolicy(inUse, {
    ...{ config, place, knowledge, recheckMs: options.recheckMs },
    isGiven: options.policy !== undefined,
    warm: (policy) =>
      warmUp(
        createOrchestrator(parts, () => ({ policy, fallback: undefined })),
        policy,
        config,
      ),
    changed: (before, cause) => tellChange(inUse, before, cause, { notes, log, announce: options.announce }),
  });
  const close = async () => {
    await app.close();
    await settling.stop();
    await Promise.all([tooling.close(), inUse.opened.engine?.close()]);
    storage.close();
  };
  const reload = () => reloadAdapter(inUse.opened.engine, inUse.opened.policy.contract);
  return {
    ...{ app, orchestrator, ledger: storage.ledger, slots, notes, reload, close },
    get policy() {
      return inUse.opened.policy;
    },
  };
}

/** Of the server, what the configuration alone says. */
const servingFacts = ({ config, timings = defaultTimings, logger = { level: 'error' } }: GatewayOptions) => ({
  profiles: { ...builtInProfiles, ...config.profiles },
  anonymousCeiling: config.ceiling,
  defaultPreferences: config.defaults,
  limits: {
    bodyBytes: config.limits.body_bytes,
    runs: config.limits.runs,
    runTimeoutMs: config.limits.run_timeout_ms,
  },
  timings,
  strict: config.server.strict,
  now: Date.now,
  newId: () => randomBytes(12).toString('hex'),
  logger,
});

/** The application's own log, once there is an application. */
interface LateLog {
  app?: FastifyInstance;
}

function restBehind(meters: readonly string[], config: Config, { upstreams }: Tooling, log: LateLog): void {
  for (const meter of meters) upstreams.get(upstreamBehind(meter, config) ?? '')?.breaker.trip();
  log.app?.log.warn({ meters }, 'an upstream billed more than it was allowed to, and rests');
}

/** Most errors are told in full where they are answered; these two keep their cause from the client. */
function logFailure({ code, cause }: OrchestraError, runId: string, app: FastifyInstance | undefined): void {
  if (cause === undefined || (code !== 'internal' && code !== 'policy_unavailable')) return;
  app?.log.error({ err: cause, runId }, 'a run or its policy failed');
}

/** The notes tell what is so now; whoever only read them at start is told. */
function tellChange(
  { opened }: PolicyInUse,
  before: OpenedPolicy,
  cause: unknown,
  { notes, log, announce }: { notes: string[]; log: LateLog; announce: GatewayOptions['announce'] },
): void {
  notes[notes.indexOf(before.note)] = opened.note;
  if (cause !== undefined) log.app?.log.error({ err: cause }, 'the bundled policy could not be started');
  announce?.(opened.note);
}

/** A policy that cannot be had ends the start; then nothing may stay behind running. */
async function openPolicyOr(
  given: Policy | undefined,
  open: () => Promise<OpenedPolicy>,
  tooling: Tooling,
): Promise<OpenedPolicy> {
  if (given) return { policy: given, fallback: undefined, engine: undefined, note: `policy: ${given.name}` };
  try {
    return await open();
  } catch (error) {
    await tooling.close();
    throw error;
  }
}

function relaysFrom(
  config: Config,
  { upstreams, engines, embedders }: Tooling,
  rows: readonly PriceRow[],
): ReadonlyMap<string, RelayedUpstream> {
  const local = localModels(config, engines, embedders);
  return new Map([
    ...(local ? [[localName, local] as const] : []),
    ...[...upstreams].flatMap(([name, { config: upstream, relay }]) => {
      const relayed = relayedUpstream(name, upstream, relay, config, rows, Date.now);
      return relayed ? [[name, relayed] as const] : [];
    }),
  ]);
}

function slotHealth(id: string, config: Config, upstreams: ReadonlyMap<string, ConnectedUpstream>): SlotHealth {
  const slot = config.slots[id];
  if (slot === undefined) return 'unavailable';
  if (slot.role === 'search' || slot.upstream === undefined) return 'available';
  const state = upstreams.get(slot.upstream)?.breaker.state();
  if (state === 'open') return 'unavailable';
  return state === 'half_open' ? 'recovering' : 'available';
}
