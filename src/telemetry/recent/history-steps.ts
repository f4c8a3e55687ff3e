// The steps of a history: 180 of 5 s, all of one clock. A step in which nobody could read is a gap.

export const stepMs = 5_000;
export const maxSteps = 180;

/** Steps that are over, and in which nothing else will be counted. */
export interface EndedSteps {
  /** Before the last one, of those that are kept. */
  readonly gaps: readonly number[];
  readonly last: number;
  /** Since the reading before: about 5 s, and longer after a gap. */
  readonly durationMs: number;
}

export class HistorySteps {
  #readMs: number;
  /** The number of the first step that was not read yet, since the clock's start. */
  #next: number;
  readonly #first: number;

  constructor(nowMs: number) {
    this.#readMs = nowMs;
    this.#next = Math.floor(nowMs / stepMs);
    this.#first = this.#next;
  }

  /** Returns the steps that are over since the last call; null if there is none. */
  end(nowMs: number): EndedSteps | null {
    const current = Math.floor(nowMs / stepMs);
    if (current <= this.#next) return null;
    // What was counted in the meantime cannot be told apart, so it is of the last of these steps.
    const firstGap = Math.max(this.#next, current - maxSteps);
    const gaps = Array.from({ length: current - 1 - firstGap }, (_, i) => firstGap + i);
    const durationMs = nowMs - this.#readMs;
    this.#next = current;
    this.#readMs = nowMs;
    return { gaps, last: current - 1, durationMs };
  }

  /** Returns the numbers of the steps that are kept, the oldest first. */
  kept(): number[] {
    const from = Math.max(this.#first, this.#next - maxSteps);
    return Array.from({ length: this.#next - from }, (_, i) => from + i);
  }

  /** Returns the end of the last step, in Unix milliseconds by the wall clock of now; null before there is one. */
  endMs(nowMs: number, wallMs: number): number | null {
    return this.#next === this.#first ? null : Math.round(wallMs - nowMs + this.#next * stepMs);
  }
}
