export interface BenchOptions {
  /** Fewer and shorter rounds: enough to see a step, too few to quote. */
  readonly quick: boolean;
  /** Instead of measuring, show where the processor time goes. */
  readonly profile: boolean;
  readonly portkey: boolean;
  /** Of the engine's figures, those whose names contain this. */
  readonly only: string | undefined;
  /** Folder for the gateway's database. */
  readonly home: string;
}

/** One comparison: ours against a peer's, and the ratio that may not be passed. */
export interface Figure {
  readonly name: string;
  readonly ours: number;
  readonly peer: number;
  readonly ratio: number;
  readonly bar: number;
  readonly ok: boolean;
}

/** What a benchmark found: rows to read, figures to hold it to. */
export interface Report {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly figures: readonly Figure[];
  readonly notes: readonly string[];
}

export function figure(name: string, ours: number, peer: number, bar: number): Figure {
  const ratio = ours / peer;
  return { name, ours: round(ours), peer: round(peer), ratio: round(ratio), bar, ok: ratio <= bar };
}

const round = (value: number): number => Number(value.toFixed(3));

export function quantile(values: readonly number[], share: number): number {
  if (values.length === 0) throw new Error('there is nothing to take a quantile of');
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

export function printReport({ columns, rows, figures, notes }: Report): void {
  printTable(columns, rows);
  console.log();
  printTable(
    ['figure', 'ours', 'peer', 'ratio', 'bar', ''],
    figures.map(({ name, ours, peer, ratio, bar, ok }) => [
      name,
      ours.toFixed(1),
      peer.toFixed(1),
      ratio.toFixed(2),
      `<= ${bar}`,
      ok ? 'ok' : 'MISSED',
    ]),
  );
  for (const note of notes) console.log(note);
}

export function printTable(columns: readonly string[], rows: readonly (readonly string[])[]): void {
  const lines = [columns, ...rows];
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  for (const line of lines) {
    const cells = line.map((cell, index) =>
      index === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[index] ?? 0),
    );
    console.log(cells.join('  ').trimEnd());
  }
}
