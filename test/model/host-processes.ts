import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Process ids of the inference hosts that a process has started. */
export function hostsOf(parentId: number): number[] {
  const threads = `/proc/${parentId}/task/${parentId}/children`;
  const children = readFileSync(threads, 'utf8').trim().split(' ').filter(Boolean).map(Number);
  return children.filter((id) => commandLine(id).includes('inference/host.ts'));
}

export function commandLine(id: number): string {
  return existsSync(`/proc/${id}/cmdline`) ? readFileSync(`/proc/${id}/cmdline`, 'utf8') : '';
}

export function onlyHost(): number {
  const [id, ...others] = hostsOf(process.pid);
  if (id === undefined || others.length > 0) throw new Error('there should be exactly one host');
  return id;
}

/** Repeats until it succeeds; the test's own timeout is the limit. */
export async function eventually<Result>(attempt: () => Promise<Result> | Result): Promise<Result> {
  for (;;) {
    try {
      return await attempt();
    } catch {
      await sleep(50);
    }
  }
}
