import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import type { Token } from 'node-llama-cpp';
import { commonPrefix, type Sequence } from './sequence.ts';

export interface Snapshot {
  readonly path: string;
  readonly tokens: readonly Token[];
  readonly bytes: number;
}

/**
 * States of sequences as files in a folder of our own, for the library copies no sequence in memory. Made in this life of
 * the process only and gone with it, so that no state of another model can ever be read. Nothing private gets here.
 */
export class Snapshots {
  readonly #folder = mkdtempSync(join(tmpdir(), 'orchestra-snapshots-'));
  readonly #kept: LRUCache<string, Snapshot> | undefined;
  readonly #bytesPerToken: number;
  readonly #mostBytes: number;
  readonly #removeFolder = () => rmSync(this.#folder, { recursive: true, force: true });
  readonly #saving = new Map<Sequence, Promise<boolean>>();
  #lastNumber = 0;

  /** @param mostBytes 0 keeps none. */
  constructor(mostBytes: number, bytesPerToken: number) {
    this.#bytesPerToken = bytesPerToken;
    this.#mostBytes = mostBytes;
    if (mostBytes > 0) {
      const dispose = ({ path }: Snapshot) => rmSync(path, { force: true });
      this.#kept = new LRUCache({ maxSize: mostBytes, sizeCalculation: ({ bytes }) => bytes, dispose });
    }
    process.once('exit', this.#removeFolder);
  }

  /** Whether a state of so many tokens leaves room for others. */
  hasRoomFor(tokens: number): boolean {
    return tokens * this.#bytesPerToken <= this.#mostBytes / 4;
  }

  /** The one that begins with most of `tokens`, and how many those are. */
  best(tokens: readonly Token[]): { readonly snapshot: Snapshot; readonly shared: number } | undefined {
    let best: { snapshot: Snapshot; shared: number } | undefined;
    for (const snapshot of this.#kept?.values() ?? []) {
      const shared = commonPrefix(snapshot.tokens, tokens, tokens.length - 1);
      // Of equals the smallest, which is read soonest.
      const isBetter =
        shared > (best?.shared ?? 0) || (shared === best?.shared && snapshot.bytes < best.snapshot.bytes);
      if (isBetter) best = { snapshot, shared };
    }
    return best;
  }

  /** False when nothing was kept. Whoever wants the same at the same time gets the same. */
  save(sequence: Sequence): Promise<boolean> {
    const saving = this.#saving.get(sequence) ?? this.#write(sequence).finally(() => this.#saving.delete(sequence));
    this.#saving.set(sequence, saving);
    return saving;
  }

  async #write(sequence: Sequence): Promise<boolean> {
    // All that it holds is written, also where somebody wants only the beginning.
    if (!this.hasRoomFor(sequence.heldTokens)) return false;
    const path = join(this.#folder, String(++this.#lastNumber));
    try {
      const tokens = await sequence.save(path);
      if (tokens === undefined) return false;
      this.#kept?.set(path, { path, tokens, bytes: tokens.length * this.#bytesPerToken + 1 });
      return this.#kept?.has(path) ?? false;
    } catch {
      // A full disk costs speed, not the request.
      rmSync(path, { force: true });
      return false;
    }
  }

  async load({ path }: Snapshot, sequence: Sequence, signal: AbortSignal): Promise<void> {
    this.#kept?.get(path);
    try {
      await sequence.load(path, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      this.#kept?.delete(path);
    }
  }

  close(): void {
    process.removeListener('exit', this.#removeFolder);
    this.#removeFolder();
  }
}
