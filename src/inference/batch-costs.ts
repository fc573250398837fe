/** Share of the newest measurement in an average: one that was disturbed is soon forgotten. */
const newestShare = 0.2;
/** Now and then the other way is tried, for costs change with the length of contexts and with the machine's load. */
const tryOtherEvery = 64;

/**
 * Learns from the clock whether writers are served sooner in one batch or one by one. On a GPU a batch costs what one
 * token costs; on a CPU the kernels for two to seven rows can be slower than that many single ones, and which are
 * depends on processor and quantisation (measured on Zen 5 with Q8_0, CPU ms a token: 14 alone, 24 by two, 15 by four, 9 by eight).
 */
export class BatchCosts {
  readonly #msOfBatch = new Map<number, number>();
  #decisions = 0;

  goOneByOne(writers: number): boolean {
    if (writers < 2) return false;
    const single = this.#msOfBatch.get(1);
    const together = this.#msOfBatch.get(writers);
    if (single === undefined) return true;
    if (together === undefined) return false;
    const isSooner = single * writers < together;
    return ++this.#decisions % tryOtherEvery === 0 ? !isSooner : isSooner;
  }

  record(writers: number, tookMs: number): void {
    const before = this.#msOfBatch.get(writers) ?? tookMs;
    this.#msOfBatch.set(writers, before + (tookMs - before) * newestShare);
  }
}
