// What `npm test` tries less of than `npm run test:long`, which lists the files.

const { HEADGATE_RUNS, HEADGATE_RARE } = process.env;
/** "all": nothing else runs the file again, so it has the cases of both. */
const isFull = HEADGATE_RUNS === "full" || HEADGATE_RUNS === "all";

/** Of what costs minutes and seldom finds anything, `npm run test:rare` tries all, and `npm run test:long` a fifth. */
const seldom = HEADGATE_RARE === undefined ? 5 : 1;
/** Whether `npm run test:rare` runs, which tries what others show as well. */
export const isTriedRarely = HEADGATE_RARE !== undefined;
/** Who names such a part has dear runs: of them, too, `npm run test:long` makes a fifth. */
const dearPart = 40;

/**
 * How often a property is tried: in full by `npm run test:long`, and one time in so many by `npm test`. Those whose runs are
 * dear have a larger `part`.
 */
export const runs = (full: number, part?: number): { readonly numRuns: number } => ({ numRuns: scaled(full, part) });

/** A number that grows with the runs, such as how often something must have happened in them. */
export const scaled = (full: number, part = 20): number => {
  if (!isFull) return Math.ceil(full / part);
  return part < dearPart || HEADGATE_RUNS === "all" ? full : fifth(full);
};

/** What differs between `npm run test:long` and `npm test` in another way than by a part of a number. */
export const inFullOr = <T>(full: T, few: T): T => (isFull ? full : few);

/** Cases that `npm run test:long` alone tries: those that take long, or start threads. */
export const inFull = <T>(cases: readonly T[]): readonly T[] => (isFull ? cases : []);

/** All of some cases by `npm run test:long`, and one in so many of them by `npm test`. */
export const spread = <T>(cases: readonly T[], part: number): readonly T[] =>
  isFull ? cases : cases.filter((_, i) => i % part === 0);

/**
 * With how many threads that carry traffic a gateway is tried: with one by `npm test`, with two by `npm run test:long`, because
 * to start a thread takes a fifth of a second of processor time. `npm run test:programs` tries both.
 */
export const threadCounts: readonly number[] = HEADGATE_RUNS === "all" ? [1, 2] : isFull ? [2] : [1];

export const fifth = (full: number): number => Math.ceil(full / seldom);

/** `which`: another number chooses others. */
export const fifthOf = <T>(cases: readonly T[], which: number): readonly T[] =>
  cases.filter((_, i) => i % seldom === which % seldom);
