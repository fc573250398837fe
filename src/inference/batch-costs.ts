/** Share of the newest measurement in an average: one that was disturbed is soon forgotten. */
const newestShare = 0.2;
/** Now and then the other way is tried, for costs change with the length of contexts. */
const leastRoundsBetweenTrials = 64;
/** What such trials may cost, as a share of all the time. */
const trialShare = 0.005;

/** Of this process. Unlike the clock it does not run faster when neighbours are busy. */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/**
 * Learns whether writers are served sooner in one batch or one by one. On a GPU a batch costs what one token costs; on a
 * CPU the kernels for two to seven rows can be slower than that many single ones, and which are depends on processor and
 * quantisation (measured on Zen 5 with Q8_0, CPU ms a token: 14 alone, 24 by two, 15 by four, 9 by eight).
 */
export class BatchCosts {
  readonly #nowMs: () => number;
  readonly #msOfBatch = new Map<number, number>();
  #decisions = 0;

  /** @param nowMs what the cost is read from: the clock, or `processorMs` where the model runs on the CPU. */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  goOneByOne(writers: number): boolean {
    if (writers < 2) return false;
    const single = this.#msOfBatch.get(1);
    const together = this.#msOfBatch.get(writers);
    if (single === undefined) return true;
    if (together === undefined) return false;
    const apart = single * writers;
    const isSooner = apart < together;
    const extraShare = Math.max(apart, together) / Math.min(apart, together) - 1;
    const interval = Math.max(leastRoundsBetweenTrials, Math.ceil(extraShare / trialShare));
    return ++this.#decisions % interval === 0 ? !isSooner : isSooner;
  }

  /** Runs a batch and remembers what it cost. */
  async measure(writers: number, run: () => Promise<void>): Promise<void> {
    const startedAtMs = this.#nowMs();
    await run();
    const tookMs = this.#nowMs() - startedAtMs;
    const before = this.#msOfBatch.get(writers) ?? tookMs;
    this.#msOfBatch.set(writers, before + (tookMs - before) * newestShare);
  }
}
