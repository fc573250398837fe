import { createInterface } from 'node:readline/promises';
import { SingleBar } from 'cli-progress';
import type { Command } from 'commander';
import { listDownloads, readDownloads, unknownModel } from '../inference/downloads/catalog.ts';
import type { DownloadEntry } from '../inference/downloads/entry.ts';
import { DownloadFailure } from '../inference/downloads/failure.ts';
import { pullModel } from '../inference/downloads/pull.ts';
import type { PullProgress } from '../inference/downloads/source.ts';

export interface ModelCommandContext {
  readonly modelsFolder: () => string;
  readonly write: (line: string) => void;
  /** What pip and the proxy settings are read from. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Fires when the user wants to stop. */
  readonly signal: AbortSignal;
  /** Where a person sees a progress bar and answers questions; left out when nobody is there. */
  readonly terminal?: { readonly input: NodeJS.ReadableStream; readonly output: NodeJS.WritableStream };
  /** What can be fetched; models/downloads.json when left out. */
  readonly downloads?: readonly DownloadEntry[];
}

/** Adds `models list` and `models pull` to the command line. */
export function registerModelCommands(program: Command, context: ModelCommandContext): void {
  const models = program.command('models').description('weights that run on this machine');
  models
    .command('list')
    .description('what can be fetched, and what is here')
    .action(() => list(context));
  models
    .command('pull')
    .description('fetch a model, check it and put it into the models folder')
    .argument('<id>', 'an id that `models list` shows')
    .option('--accept-licence', 'you have read the licence and accept it', false)
    .action((id: string, options: { acceptLicence: boolean }) =>
      pullWithWords(id, options.acceptLicence, context).catch((thrown) => {
        throw forTheCommandLine(thrown, context.signal);
      }),
    );
}

function forTheCommandLine(thrown: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return new DownloadFailure('stopped', 'Stopped. Run the same command to finish.', thrown);
  if (!(thrown instanceof DownloadFailure) || thrown.kind !== 'licence_not_accepted') return thrown;
  return new DownloadFailure(thrown.kind, `${thrown.message} Without a terminal: --accept-licence.`, thrown);
}

async function list(context: ModelCommandContext): Promise<void> {
  const models = await listDownloads(context.modelsFolder(), context.downloads ?? readDownloads());
  const rows = models.map(({ entry, present }) => [
    entry.id,
    entry.role,
    sizeInWords(entry.sizeBytes),
    entry.licence.researchOnly === true ? `${entry.licence.name} (research only)` : entry.licence.name,
    present ? 'yes' : 'no',
  ]);
  for (const line of table([['id', 'role', 'size', 'licence', 'here'], ...rows])) context.write(line);
  context.write(`Folder: ${context.modelsFolder()}`);
}

/** Shows the licence and the progress, and says where the file ended up; an adapter's base comes first. */
export async function pullWithWords(id: string, accepted: boolean, context: ModelCommandContext): Promise<void> {
  const entries = context.downloads ?? readDownloads();
  const folder = context.modelsFolder();
  const known = (await listDownloads(folder, entries)).find((model) => model.entry.id === id);
  if (known === undefined) throw unknownModel(id, entries);
  const { entry, present, base } = known;
  if (base && !base.present) await pullWithWords(base.entry.id, accepted, context);
  for (const line of licenceInWords(entry)) context.write(line);
  const acceptLicence = accepted || present || (await agrees(entry, context));
  const progress = context.terminal === undefined ? progressLines(context.write) : progressBar(context.terminal.output);
  const { signal, environment } = context;
  const pulled = await pullModel(entry, {
    folder,
    acceptLicence,
    signal,
    environment,
    onProgress: progress.show,
  }).finally(progress.end);
  context.write(`SHA-256 ${pulled.sha256}${entry.sha256 === null ? ' (as it came: no expected hash is known)' : ''}`);
  context.write(`${pulled.alreadyThere ? 'Already here' : 'Ready'}: ${pulled.path}`);
}

function licenceInWords(entry: DownloadEntry): readonly string[] {
  const { name, url, notice } = entry.licence;
  const lines = [
    `${entry.title}, ${sizeInWords(entry.sizeBytes)}`,
    `Licence: ${name}${url === undefined ? '' : `, ${url}`}`,
  ];
  return notice === undefined ? lines : [...lines, notice];
}

async function agrees(entry: DownloadEntry, context: ModelCommandContext): Promise<boolean> {
  if (entry.licence.researchOnly !== true || context.terminal === undefined) return false;
  const { input, output } = context.terminal;
  const questions = createInterface({ input, output });
  try {
    const answer = await questions.question('Do you accept this licence? [y/N] ', { signal: context.signal });
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    questions.close();
  }
}

interface ProgressDisplay {
  readonly show: (progress: PullProgress) => void;
  readonly end: () => void;
}

function progressBar(stream: NodeJS.WritableStream): ProgressDisplay {
  const bar = new SingleBar({ stream, format: '{bar} {percentage} % of {size}, {eta_formatted} left', fps: 5 });
  let started = false;
  return {
    show: ({ receivedBytes, totalBytes }) => {
      if (started) bar.update(receivedBytes);
      else bar.start(totalBytes, receivedBytes, { size: sizeInWords(totalBytes) });
      started = true;
    },
    end: () => bar.stop(),
  };
}

/** For logs: one line every tenth. */
function progressLines(write: (line: string) => void): ProgressDisplay {
  let tenthsShown = -1;
  return {
    show: ({ receivedBytes, totalBytes }) => {
      const tenths = Math.floor((receivedBytes * 10) / totalBytes);
      if (tenths === tenthsShown) return;
      tenthsShown = tenths;
      write(`${tenths * 10} % of ${sizeInWords(totalBytes)}`);
    },
    end: () => undefined,
  };
}

function table(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

function sizeInWords(bytes: number): string {
  return bytes < 1e9 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}
