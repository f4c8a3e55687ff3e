// How much of its cases a run tries: a sample in `npm test` (files `*.sampled.test.ts`), all of them in `npm run test:long`, which
// tries a fifth of expensive ones, and really all in `npm run test:nightly`.

/** Set by the configuration of a run: "full" (test:long), "programs" or "night". `npm test` sets none. */
const { HEADGATE_RUNS } = process.env;
const isFull = HEADGATE_RUNS !== undefined;

export const isNight = HEADGATE_RUNS === "night";
const seldom = isNight ? 1 : 5;
/** A property of which `npm test` tries such a part has expensive runs: `npm run test:long` makes a fifth of them. */
const dearPart = 40;

/**
 * How often a property is tried: in full by `npm run test:long`, and one time in so many by `npm test`. Those whose runs are
 * expensive have a larger `part`.
 */
export const runs = (full: number, part?: number): { readonly numRuns: number } => ({ numRuns: scaled(full, part) });

/** A number that grows with the runs, such as how often something must have happened in them. */
export const scaled = (full: number, part = 20): number => {
  if (!isFull) return Math.ceil(full / part);
  return part < dearPart || HEADGATE_RUNS === "programs" ? full : fifth(full);
};

/** What differs between `npm run test:long` and `npm test` in another way than by a part of a number. */
export const inFullOr = <T>(full: T, few: T): T => (isFull ? full : few);

/** Cases that `npm test` does not try: those that take long, or start threads. */
export const inFull = <T>(cases: readonly T[]): readonly T[] => (isFull ? cases : []);

/** All of some cases by `npm run test:long`, and one in so many of them by `npm test`. */
export const spread = <T>(cases: readonly T[], part: number): readonly T[] =>
  isFull ? cases : cases.filter((_, i) => i % part === 0);

/**
 * With how many threads that carry traffic a gateway is tried: with one by `npm test`, because to start a thread takes a fifth of a
 * second of processor time; with two by `npm run test:long` and `npm run test:programs`; with both by `npm run test:nightly`.
 */
export const threadCounts: readonly number[] = isNight ? [1, 2] : isFull ? [2] : [1];

export const fifth = (full: number): number => Math.ceil(full / seldom);

/** `which`: another number chooses others. */
export const fifthOf = <T>(cases: readonly T[], which: number): readonly T[] =>
  cases.filter((_, i) => i % seldom === which % seldom);
