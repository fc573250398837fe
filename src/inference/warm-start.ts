import type { Token } from 'node-llama-cpp';
import { throwIfCancelled } from './cancellation.ts';
import type { Sequence } from './sequence.ts';
import type { Snapshots } from './snapshots.ts';

/** A copy is a file written and read; fewer tokens are computed as fast. */
const leastCopiedTokens = 64;
/** Sources may vanish while one waits for them; after so many, computing it oneself is surer. */
const mostTries = 4;

/**
 * Gets a sequence as much of a prompt as anybody here has computed, or is about to: its own cache, a snapshot, or a copy
 * of a neighbour. Sixteen runs that start together with the same instructions have them computed once.
 */
export async function warmStart(
  sequence: Sequence,
  prompt: readonly Token[],
  { sequences, snapshots }: { readonly sequences: readonly Sequence[]; readonly snapshots: Snapshots },
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 0; attempt < mostTries; attempt++) {
    const own = sequence.cachedPrefix(prompt);
    const kept = snapshots.best(prompt);
    const neighbour = bestNeighbour(sequence, prompt, sequences);
    const needed = Math.max(own, kept?.shared ?? 0) + leastCopiedTokens;
    if (neighbour.shared >= needed && snapshots.hasRoomFor(neighbour.shared)) {
      const isThere = await cancellable(neighbour.sequence.reach(neighbour.shared), signal);
      if (isThere && !(await snapshots.save(neighbour.sequence))) break;
      continue;
    }
    if (kept && kept.shared >= own + leastCopiedTokens) await snapshots.load(kept.snapshot, sequence, signal);
    break;
  }
  sequence.claim(prompt);
}

/**
 * What a conversation leaves behind when its sequence goes to somebody else, unless it is short or kept already. A private
 * newcomer takes all of it away, also what its prompt has in common.
 */
export async function keepForLater(
  sequence: Sequence,
  { prompt, owner }: { readonly prompt: readonly Token[]; readonly owner: string | undefined },
  snapshots: Snapshots,
): Promise<void> {
  const held = sequence.publicTokens;
  const stays = owner === undefined ? sequence.cachedPrefix(prompt, owner) : 0;
  const kept = Math.max(stays, snapshots.best(held)?.shared ?? 0);
  if (held.length - kept < leastCopiedTokens || !snapshots.hasRoomFor(held.length)) return;
  await snapshots.save(sequence);
}

function bestNeighbour(self: Sequence, prompt: readonly Token[], sequences: readonly Sequence[]) {
  let best = { sequence: self, shared: 0 };
  for (const sequence of sequences) {
    const shared = sequence === self ? 0 : sequence.sharedPrefix(prompt);
    if (shared > best.shared) best = { sequence, shared };
  }
  return best;
}

function cancellable<Result>(waiting: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const leave = () => {
      try {
        throwIfCancelled(signal);
      } catch (error) {
        reject(error);
      }
    };
    signal.addEventListener('abort', leave, { once: true });
    leave();
    void waiting.then(resolve).finally(() => signal.removeEventListener('abort', leave));
  });
}
