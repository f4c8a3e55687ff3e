// What a log of admissions says about a limit. The instant of a charge is not seen from outside: it lies between the
// instant at which the client sent the request and the one at which the upstream got it. A claim that a limit was
// exceeded is made only where every choice of instants between the two exceeds it, so no delay makes a false claim. An
// excess is overlooked only if all of it is nearer to the border of the window than such a delay; tests report the delay.

/** Milliseconds by CLOCK_MONOTONIC. */
export interface Admission {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** The largest number of admissions that are certainly in one half-open window, wherever in time it is. */
export function worstWindow(admissions: readonly Admission[], windowMs: number): number {
  return windowsAbove(admissions, windowMs, 0).reduce((worst, { count }) => Math.max(worst, count), 0);
}

/** The half-open windows that certainly have more admissions than `limit`, by their start; each starts with an admission. */
export function windowsAbove(
  admissions: readonly Admission[],
  windowMs: number,
  limit: number,
): { readonly startMs: number; readonly count: number }[] {
  const byStart = [...admissions].sort((a, b) => a.fromMs - b.fromMs);
  const ends = admissions.map(({ untilMs }) => untilMs).sort((a, b) => a - b);
  const counts = new RankCounts(ends.length);
  const above: { startMs: number; count: number }[] = [];
  // Before each step, the counts hold what begins later: the window begins at the start of this one.
  for (let i = byStart.length - 1; i >= 0; i -= 1) {
    const { fromMs, untilMs } = byStart[i] as Admission;
    counts.add(lowerBound(ends, untilMs));
    if (byStart[i - 1]?.fromMs === fromMs) continue;
    const count = counts.below(lowerBound(ends, fromMs + windowMs));
    if (count > limit) above.push({ startMs: fromMs, count });
  }
  return above.reverse();
}

/** The largest number that were under way at the same instant; what ends at an instant has ended at it. */
export function mostAtOnce(spans: readonly Admission[]): number {
  const changes = spans.flatMap(({ fromMs, untilMs }) => [
    { atMs: fromMs, by: 1 },
    { atMs: untilMs, by: -1 },
  ]);
  changes.sort((a, b) => a.atMs - b.atMs || a.by - b.by);
  let now = 0;
  let most = 0;
  for (const { by } of changes) {
    now += by;
    most = Math.max(most, now);
  }
  return most;
}

/** How many of the attempts an exact sliding window in one place admits. `attemptsMs`: in any order. */
export function idealAdmissions(attemptsMs: readonly number[], limit: number, windowMs: number): number {
  const admitted: number[] = [];
  for (const atMs of [...attemptsMs].sort((a, b) => a - b)) {
    const oldest = admitted[admitted.length - limit];
    if (oldest === undefined || atMs - oldest >= windowMs) admitted.push(atMs);
  }
  return admitted.length;
}

/** `share`: 0.99 for p99. NaN without values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** The first place whose value is not below `value`. */
function lowerBound(sorted: readonly number[], value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Counts of ranks, with sums in logarithmic time (a Fenwick tree). */
class RankCounts {
  readonly #sums: Int32Array;

  constructor(size: number) {
    this.#sums = new Int32Array(size + 1);
  }

  add(rank: number): void {
    for (let i = rank + 1; i < this.#sums.length; i += i & -i) this.#sums[i] = (this.#sums[i] as number) + 1;
  }

  /** How many have a rank below this one. */
  below(rank: number): number {
    let sum = 0;
    for (let i = rank; i > 0; i -= i & -i) sum += this.#sums[i] as number;
    return sum;
  }
}
