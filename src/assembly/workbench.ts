import { loadContract } from '../contract/load.ts';
import type { Ledger } from '../cost/ledger.ts';
import type { Slot } from '../preferences/slot.ts';
import type { Tool } from '../tools/tool.ts';
import type { Config } from './config.ts';
import type { ModelsPlace } from './engines.ts';
import { ConfigError } from './load-config.ts';
import { createPriceBook, readPriceRows } from './prices.ts';
import { slotsFrom } from './slots.ts';
import { openStorage } from './storage.ts';
import { openTooling } from './tooling.ts';
import { defaultPatience, type Patience } from './upstreams.ts';

/** The configured slots and a ledger of their own, without server and policy: to try slots one by one. */
export interface Workbench {
  /** Those that have a tool. */
  readonly slots: readonly Slot[];
  readonly tools: ReadonlyMap<string, Tool>;
  /** In memory: what is spent here is not in the books of a gateway that may be running beside. */
  readonly ledger: Ledger;
  readonly notes: readonly string[];
  close(): Promise<void>;
}

/** @throws ConfigError for a slot whose price is found nowhere. */
export async function openWorkbench(
  config: Config,
  place: ModelsPlace,
  patience: Patience = defaultPatience,
): Promise<Workbench> {
  const { slots: configured, problems } = slotsFrom(config, readPriceRows(), Date.now());
  if (problems.length > 0) throw new ConfigError(problems);
  const prices = createPriceBook(config, configured, () => undefined);
  const storage = openStorage({ ...config, store: 'memory' }, '', prices, () => undefined);
  const contract = loadContract('slots-1');
  const { slots, tools, notes, close } = await openTooling({
    config,
    slots: configured,
    contract,
    place,
    patience,
    embed: false,
  });
  return {
    slots,
    tools,
    ledger: storage.ledger,
    notes,
    close: async () => {
      await close();
      storage.close();
    },
  };
}
