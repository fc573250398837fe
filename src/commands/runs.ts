import { closeSync, fchmodSync, openSync, writeSync } from 'node:fs';
import { type Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { ConfigError } from '../assembly/load-config.ts';
import type { ModelCommandContext } from './models.ts';

interface ExportOptions {
  readonly url: string;
  readonly since?: Date;
  readonly all: boolean;
  readonly out?: string;
}

/** Adds `runs export` to the command line. */
export function registerRunCommands(program: Command, context: ModelCommandContext): void {
  program
    .command('runs')
    .description('what a gateway did before')
    .command('export')
    .description('runs with feedback as JSON lines, oldest last; the key is read from ORCHESTRA_API_KEY')
    .option('--url <address>', 'of a running gateway', gatewayAddress, 'http://127.0.0.1:8080')
    .option('--since <date>', 'at or after, such as 2026-01-31', date)
    .option('--all', 'runs without feedback too', false)
    .option('--out <file>', 'write there instead of printing')
    .action((options: ExportOptions) => exportRuns(options, context));
}

function gatewayAddress(text: string): string {
  const known = /^https?:\/\/[^\s?#]+$/.test(text) && URL.canParse(text);
  if (known) return text.replace(/\/+(v1\/*)?$/, '');
  throw new InvalidArgumentError('It is an address such as http://127.0.0.1:8080.');
}

function date(text: string): Date {
  const instant = new Date(text);
  if (/^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(instant.getTime())) return instant;
  throw new InvalidArgumentError('It is a date such as 2026-01-31.');
}

const page = z.looseObject({
  data: z.array(z.looseObject({ run_id: z.string(), kind: z.string(), feedback: z.unknown().optional() })),
  has_more: z.boolean(),
  last_id: z.string().nullable(),
});
const slotList = z.looseObject({
  data: z.array(
    z.looseObject({ id: z.string(), model: z.string(), quality: z.string(), skills: z.unknown(), privacy: z.string() }),
  ),
});
const wholeRun = z.looseObject({
  turns: z.array(z.looseObject({ role: z.string(), slot: z.string(), model: z.string(), outcome: z.string() })),
});

type Ask = (path: string) => Promise<unknown>;

/** A run a line, as the API shows it, with the card of the slot that answered as it is now. */
async function exportRuns(options: ExportOptions, { environment, signal, write }: ModelCommandContext): Promise<void> {
  const ask = askerOf(options.url, environment['ORCHESTRA_API_KEY'], signal);
  const { data: slots } = slotList.parse(await ask('/v1/orchestra/slots'));
  const file = options.out === undefined ? undefined : openForOwner(options.out);
  let [written, withTexts] = [0, 0];
  try {
    for await (const id of runIds(ask, options)) {
      const run = wholeRun.parse(await ask(`/v1/orchestra/runs/${encodeURIComponent(id)}`));
      const answered = run.turns.findLast(
        ({ role, outcome }) => role === 'answer' && (outcome === 'answered' || outcome === 'delivered'),
      );
      const slot = answered && slots.find((one) => one.id === answered.slot && one.model === answered.model);
      const card = slot && { slot: slot.id, quality: slot.quality, skills: slot.skills, privacy: slot.privacy };
      const line = JSON.stringify({ ...run, ...(card ? { card } : {}) });
      if (file === undefined) write(line);
      else writeSync(file, `${line}\n`);
      written += 1;
      if ('texts' in run) withTexts += 1;
    }
    // Runs without texts can be counted and not be learnt from: whoever keeps none should hear of it before training.
    if (options.out !== undefined) write(`${options.out}: ${written} runs, ${withTexts} of them with texts`);
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function openForOwner(path: string): number {
  try {
    const file = openSync(path, 'w', 0o600);
    // One that was there before keeps its mode otherwise.
    fchmodSync(file, 0o600);
    return file;
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? ` (${error.code})` : '';
    throw new ConfigError([`runs export: --out ${path} cannot be written${reason}`]);
  }
}

async function* runIds(ask: Ask, { since, all }: ExportOptions): AsyncGenerator<string> {
  const query = new URLSearchParams({ limit: '100', kind: 'run' });
  if (since) query.set('created_after', String(Math.ceil(since.getTime() / 1000)));
  for (;;) {
    const { data, has_more: more, last_id: last } = page.parse(await ask(`/v1/orchestra/runs?${query}`));
    for (const { run_id: id, feedback } of data) if (all || feedback !== undefined) yield id;
    if (!more || last === null) return;
    query.set('after', last);
  }
}

const patienceMs = 30_000;

/** @throws ConfigError when the gateway is not there or does not want to tell; the key is in no message. */
function askerOf(url: string, key: string | undefined, signal: AbortSignal): Ask {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  return async (path) => {
    const limits = { headers, signal: AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]) };
    const failed = (reason: string) => new ConfigError([`runs export: ${url} ${reason}`]);
    // A redirect would carry the key to a host that nobody named.
    const response = await fetch(url + path, { ...limits, redirect: 'error' }).catch(() => {
      throw failed('does not answer: name a running gateway with --url');
    });
    if (response.status === 401) throw failed('wants a key: set ORCHESTRA_API_KEY');
    if (!response.ok) throw failed(`answered ${response.status}`);
    return response.json().catch(() => {
      throw failed('broke off or wrote no JSON');
    });
  };
}
