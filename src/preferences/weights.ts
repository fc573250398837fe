/** What everybody can care about; the order in which a wish in words is asked about them. */
export const weightAxes = ['quality', 'cost', 'latency', 'privacy'] as const;
export type WeightAxis = (typeof weightAxes)[number];

/** What the caller cares about, each 0 to 1: the paper's preference vector P in our names (section 3.2). */
export interface Weights {
  readonly quality: number;
  readonly cost: number;
  readonly latency: number;
  readonly privacy: number;
  /** Extra liking of single slots or tools, by selector. */
  readonly tools: Readonly<Record<string, number>>;
}
