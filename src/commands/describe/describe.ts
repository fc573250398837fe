import { closeSync, openSync, writeFileSync } from 'node:fs';
import { SingleBar } from 'cli-progress';
import { type Command, InvalidArgumentError } from 'commander';
import { stringify } from 'yaml';
import { ConfigError } from '../../assembly/load-config.ts';
import { readStart } from '../../assembly/start.ts';
import { openWorkbench, type Workbench } from '../../assembly/workbench.ts';
import type { Budget, Ledger } from '../../cost/ledger.ts';
import { addUsd, formatUsd, type NanoUsd, nanoUsd, usdToNano, zeroUsd } from '../../cost/money.ts';
import { isBilledByTime } from '../../cost/rates.ts';
import type { Slot } from '../../preferences/slot.ts';
import type { Tool } from '../../tools/tool.ts';
import type { ModelCommandContext } from '../models.ts';
import { type Card, cardOf, plainSentence, skillsOf, writtenSentence } from './card.ts';
import { measureSlot, type SlotTrials } from './measure-slot.ts';
import { type SkillTask, skillTasks } from './skill-tasks.ts';

interface DescribeOptions {
  readonly config?: string;
  readonly slot: readonly string[];
  readonly tasks: number;
  readonly seed: number;
  readonly maxCostUsd: NanoUsd;
  readonly out?: string;
}

/** Adds `describe` to the command line. */
export function registerDescribeCommand(program: Command, context: ModelCommandContext): void {
  program
    .command('describe')
    .description('measure what the configured slots are good at, and write their cards')
    .option('--config <file>', 'configuration file instead of orchestra.yaml')
    .option('--slot <id...>', 'these slots only', [])
    .option('--tasks <number>', 'questions of each domain', wholeNumber(1, 14), 10)
    .option('--seed <number>', 'which questions', wholeNumber(0, 2 ** 31), 1)
    .option('--max-cost-usd <usd>', 'most that all of it may cost', dollars, usdToNano('0.10'))
    .option('--out <file>', 'write the YAML there instead of printing it')
    .action((options: DescribeOptions) => describe(options, context));
}

const wholeNumber = (least: number, most: number) => (text: string) => {
  const value = Number(text);
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new InvalidArgumentError(`It is a whole number from ${least} to ${most}.`);
};

function dollars(text: string): NanoUsd {
  try {
    return usdToNano(text);
  } catch {
    throw new InvalidArgumentError('It is a number of dollars, such as 0.50.');
  }
}

/** @throws ConfigError for a slot that is not there, or a file that cannot be written. */
async function describe(options: DescribeOptions, context: ModelCommandContext): Promise<void> {
  if (options.out !== undefined) openOnce(options.out);
  const { config, settings } = readStart(context.environment, options.config);
  const place = { folder: settings.modelsFolder, environment: context.environment };
  const bench = await openWorkbench(config, place);
  try {
    for (const note of bench.notes) context.write(`# ${note}`);
    const chosen = chooseSlots(bench, options.slot, context.write);
    const tasks = skillTasks(options.tasks, options.seed);
    const bills: NanoUsd[] = [];
    const shares = shareOut(options.maxCostUsd, chosen, bench.ledger, bills);
    const cards = await describeSlots(shares, tasks, context);
    const yaml = `# Measured by \`orchestra describe\`; quality was put into words by a model: read it before you paste it.\n${stringify({ slots: cards }, { lineWidth: 0 })}`;
    if (options.out === undefined) context.write(yaml);
    else writeFileSync(options.out, yaml);
    context.write(`# Spent: ${formatUsd(addUsd(zeroUsd, ...bills))} USD of ${formatUsd(options.maxCostUsd)}.`);
  } finally {
    await bench.close();
  }
}

/** Before anything is paid for: afterwards it would be lost. */
function openOnce(file: string): void {
  try {
    closeSync(openSync(file, 'a'));
  } catch {
    throw new ConfigError([`describe: ${file} cannot be written`]);
  }
}

/** Those that answer and whose price is known: without one no limit can hold. */
function chooseSlots(bench: Workbench, asked: readonly string[], write: (line: string) => void): readonly Tool[] {
  const unknown = asked.filter((id) => !bench.tools.has(id));
  if (unknown.length > 0) throw new ConfigError(unknown.map((id) => `${id}: there is no such slot in working order`));
  const wanted = bench.slots.filter(({ id }) => asked.length === 0 || asked.includes(id));
  const able = wanted.filter((slot) => {
    const reason = whyNot(slot);
    if (reason !== undefined) write(`# ${slot.id} is left out: ${reason}`);
    return reason === undefined;
  });
  return able.flatMap(({ id }) => bench.tools.get(id) ?? []);
}

function whyNot({ role, rates }: Slot): string | undefined {
  if (role === 'search') return 'a search answers no questions';
  if (isBilledByTime(rates)) return 'it is billed by the second, and nothing bounds how long a question takes';
  return rates === undefined ? 'its price is unknown, so no limit would hold' : undefined;
}

const shareOf = (money: NanoUsd, slots: number): NanoUsd => nanoUsd(Math.floor(money / Math.max(1, slots)));

/**
 * Equal parts, so that a dear slot does not leave the others unmeasured; its card is paid from it too.
 * @param bills takes in what each call came to, which may be more than a part where an upstream does not keep to it.
 */
function shareOut(money: NanoUsd, tools: readonly Tool[], ledger: Ledger, bills: NanoUsd[]): ReadonlyMap<Tool, Budget> {
  const limits = { keyName: 'describe', maxCost: shareOf(money, tools.length), maxCostPerDay: undefined };
  const part = (tool: Tool): Budget => {
    const budget = ledger.openBudget({ ...limits, runId: `describe-${tool.slot.id}` });
    return {
      ...budget,
      settle: (hold, usage) => {
        const bill = budget.settle(hold, usage);
        bills.push(bill.total);
        return bill;
      },
    };
  };
  return new Map(tools.map((tool) => [tool, part(tool)]));
}

async function describeSlots(
  shares: ReadonlyMap<Tool, Budget>,
  tasks: readonly SkillTask[],
  { signal, terminal, write }: ModelCommandContext,
): Promise<Readonly<Record<string, Card>>> {
  const bar =
    terminal && new SingleBar({ stream: terminal.output, format: '{bar} {value}/{total}, {eta_formatted} left' });
  bar?.start(shares.size * tasks.length, 0);
  const measured = new Map<Tool, SlotTrials>();
  try {
    // One after the other: latencies are measured too, and local models share the processor.
    for (const [tool, budget] of shares) {
      measured.set(tool, await measureSlot(tool, tasks, budget, signal, () => bar?.increment()));
    }
  } finally {
    bar?.stop();
  }
  const cards: Record<string, Card> = {};
  for (const [tool, { trials, failures, end }] of measured) {
    const { id } = tool.slot;
    if (failures > 0) write(`# ${id}: ${failures} calls failed and are not counted`);
    if (end !== 'complete') write(`# ${id}: ${trials.length} of ${tasks.length} questions answered; ${endings[end]}`);
    if (trials.length === 0) continue;
    const writer = signal.aborted ? undefined : writerFor(tool, measured);
    const budget = shares.get(tool);
    const written = writer && budget && (await writtenSentence(writer, tool.slot, trials, budget, signal));
    if (written === undefined) write(`# ${id}: quality is put together from the figures alone`);
    cards[id] = cardOf(trials, written ?? plainSentence(skillsOf(trials)));
  }
  return cards;
}

const endings = {
  money: 'the money that it may cost was not enough',
  failures: 'too many calls failed in a row',
  stopped: 'stopped',
} as const;

/** The one that knew most, but never the one that is described: nobody writes their own reference. */
function writerFor(described: Tool, measured: ReadonlyMap<Tool, SlotTrials>): Tool | undefined {
  const share = ({ trials }: SlotTrials) => trials.filter(({ right }) => right).length;
  return [...measured]
    .filter(
      ([tool, { trials }]) =>
        tool.slot.model !== described.slot.model && tool.slot.role === 'answer' && trials.length > 0,
    )
    .sort(([, left], [, right]) => share(right) - share(left))[0]?.[0];
}
