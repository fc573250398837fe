/** What `estimate` makes of a problem before it looks at any slot. */
export interface ProblemReading {
  /** Chance of each domain that the cards name; what is missing to 1 is about something else. */
  readonly domains: ReadonlyMap<string, number>;
  /** Log-odds by which this problem is easier for everybody than its domain, as far as its text shows. */
  readonly shift: number;
  /** The same, as far as its text does not show: possible values and their chances. */
  readonly levels: readonly number[];
  readonly levelWeights: readonly number[];
  readonly needs: Needs;
  /** Chance that two wrong answers are equal. */
  readonly coincidence: number;
  /** Chance that the final answers of two attempts can be compared. */
  readonly comparable: number;
}

/** Chance that an answer is worse without it. */
export interface Needs {
  readonly facts: number;
  readonly documents: number;
  readonly calculation: number;
}

/** @param names the domains that the cards of this turn's slots name. */
export type ProblemReader = (problem: string, names: readonly string[], signal: AbortSignal) => Promise<ProblemReading>;

/** Words by which fields give themselves away, in problems and in cards. */
export const fields: Readonly<Record<string, RegExp>> = {
  math: /\b(math\w*|algebra|calculus|equation|theorem|integral|probability|geometry|proof)\b|\d\s*[-+*/^=]\s*\d/i,
  code: /\b(code|coding|program\w*|python|javascript|typescript|function|bug|compile\w*|sql|regex|script)\b/i,
};

const factCues =
  /\b(latest|today|current(ly)?|news|recent(ly)?|who (is|was)|when (did|was|is)|where (is|do)|according to|price of|version of|source)\b/i;
const documentCues =
  /\b(docs?|documentation|document(s|ed)?|our|this project|configur\w*|which (file|option|setting|version)|how do i)\b/i;
const calculationCues =
  /\b(calculate|compute|how many|how much|sum of|product of|average of|percent(age)?|simulate|convert|days between)\b|\d+(\.\d+)?\s*[-+*/^%×]\s*\d+/i;

/** Lines such as `A. red` or `(B) green`. */
const optionLine = /^[ \t]*\(?[A-J][).:][ \t]+\S/gm;

/**
 * What agreement is worth. Numbers compare well, prose not at all. Questions with options are not voted on: few options
 * coincide often, and on recorded outcomes it did not pay (docs/estimate.md).
 */
export function comparison(problem: string, coincidence: { readonly options: number; readonly open: number }) {
  const hasOptions = (problem.match(optionLine)?.length ?? 0) >= 2;
  if (hasOptions) return { coincidence: coincidence.options, comparable: 0 };
  return { coincidence: coincidence.open, comparable: /\d/.test(problem) ? 0.8 : 0 };
}

export const needsByCues = (problem: string): Needs => ({
  facts: Number(factCues.test(problem)),
  documents: Number(documentCues.test(problem)),
  calculation: Number(calculationCues.test(problem)),
});

/** Without an embedding: words only. */
export const readByCues: ProblemReader = async (problem, names) => ({
  domains: domainsByCues(problem, names),
  shift: 0,
  levels: [-1, 1],
  levelWeights: [0.5, 0.5],
  needs: needsByCues(problem),
  ...comparison(problem, { options: 0.3, open: 0.2 }),
});

function domainsByCues(problem: string, names: readonly string[]): ReadonlyMap<string, number> {
  const found = names.filter((name) => fields[name]?.test(problem));
  return new Map(found.map((name) => [name, 1 / found.length]));
}
