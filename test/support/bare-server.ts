import { createHash, randomBytes } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { createLedger } from '../../src/cost/ledger.ts';
import type { MeterPrice } from '../../src/cost/price-book.ts';
import { builtInProfiles } from '../../src/preferences/profiles.ts';
import type { Slot } from '../../src/preferences/slot.ts';
import { createApp } from '../../src/server/app.ts';
import { defaultLimits, defaultTimings, type RelayedModel, type ServerParts } from '../../src/server/parts.ts';
import { createChargeStore } from '../../src/store/charges.ts';
import { openDatabase } from '../../src/store/database.ts';
import { createRunStore } from '../../src/store/runs.ts';
import { createSpendingStore } from '../../src/store/spending.ts';
import { createWriteQueue } from '../../src/store/write-queue.ts';
import { createRelay } from '../../src/upstream/relay.ts';
import { scriptedOrchestrator } from './scripted-orchestrator.ts';
import { aSlot } from './slots.ts';

export interface BareServer {
  readonly app: FastifyInstance;
  readonly parts: ServerParts;
  /** `http://127.0.0.1:PORT`. */
  readonly origin: string;
  readonly port: number;
  close(): Promise<void>;
}

export const keyNamed = (name: string, secret: string, ceiling = {}) => ({
  name,
  sha256: createHash('sha256').update(secret).digest('hex'),
  ceiling,
});

const answerSlot: Slot = aSlot({ id: 'answer-1', model: 'loopback/large', regions: ['us'], clientTools: true });

/** A model of the loopback upstream, served as `loopback/NAME`. */
export function relayedModel(name: string, facts: Partial<Slot> = {}): RelayedModel {
  const id = `loopback/${name}`;
  return { slot: { ...answerSlot, id, model: id, ...facts }, meter: `relay:${id}`, upstreamModel: name };
}

export interface RelaySetup {
  readonly url: string;
  readonly apiKey?: string;
  readonly models: readonly RelayedModel[];
  readonly timeoutMs?: number;
}

/** A gateway on 127.0.0.1 with an in-memory database; everything can be replaced. */
export async function startServer(overrides: Partial<ServerParts> = {}, relay?: RelaySetup): Promise<BareServer> {
  const database = openDatabase(':memory:');
  const queue = createWriteQueue(database);
  const prices = new Map<string, MeterPrice>(
    [{ slot: answerSlot, meter: answerSlot.id }, ...(relay?.models ?? [])].map(({ slot, meter }) => [
      meter,
      { rates: slot.rates, label: slot.model, kind: 'model' },
    ]),
  );
  const parts: ServerParts = {
    orchestrator: scriptedOrchestrator(),
    runs: createRunStore(database, queue),
    spending: createSpendingStore(database, queue),
    ledger: createLedger(createChargeStore(database, queue), prices, Date.now),
    prices,
    slots: [answerSlot],
    slotHealth: () => 'available',
    relays: new Map(relay ? [['loopback', relayedUpstream(relay)]] : []),
    profiles: builtInProfiles,
    keys: undefined,
    policy: () => 'scripted',
    anonymousCeiling: {},
    defaultPreferences: {},
    readiness: () => ({ ready: true, notes: [] }),
    limits: defaultLimits,
    timings: defaultTimings,
    strict: false,
    keepTexts: false,
    now: Date.now,
    newId: () => randomBytes(16).toString('hex'),
    logger: false,
    ...overrides,
  };
  const app = createApp(parts);
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo; // A TCP server that listens has an address object.
  return { app, parts, port, origin: `http://127.0.0.1:${port}`, close: () => app.close() };
}

function relayedUpstream({ url, apiKey = 'sk-upstream', models, timeoutMs = 5_000 }: RelaySetup) {
  const timeouts = {
    firstTokenTimeoutMs: timeoutMs,
    betweenTokensTimeoutMs: timeoutMs,
    answerTimeoutMs: timeoutMs,
  };
  return {
    relay: createRelay({ name: 'loopback', baseUrl: url, apiKey, timeouts }),
    listed: models,
    find: (name: string) => models.find(({ upstreamModel }) => upstreamModel === name),
  };
}
