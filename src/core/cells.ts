// Numbers that one thread writes and other threads read, without a message: counts of metrics, and outcomes of policies. A
// number is written with one store of 64 bits, which the processors that Node runs on do not split. A reader may see one of two
// related numbers before the other.
import { type Outcome, outcomes } from "./policy.ts";

/** Numbers side by side, of which the first is at `at`. Can be sent to another thread. */
export interface CellRange {
  readonly cells: Float64Array;
  readonly at: number;
}

/** A page of memory. */
const cellsInBlock = 512;

/** Hands out memory. It is never taken back, so each caller needs a bound of its own. */
export class Cells {
  #cells: Float64Array = new Float64Array(0);
  #used = 0;

  /** Returns numbers that are 0. */
  take(count: number): CellRange {
    if (this.#used + count > this.#cells.length) {
      const bytes = Float64Array.BYTES_PER_ELEMENT * Math.max(count, cellsInBlock);
      this.#cells = new Float64Array(new SharedArrayBuffer(bytes));
      this.#used = 0;
    }
    const at = this.#used;
    this.#used += count;
    return { cells: this.#cells, at };
  }
}

/** Counts the outcomes of a policy. */
export class OutcomeCells implements Record<Outcome, number> {
  readonly #cells: Float64Array;
  readonly #at: number;

  constructor({ cells, at }: CellRange) {
    this.#cells = cells;
    this.#at = at;
  }

  // In the order of `outcomes`. An access by a computed name would take several times longer.

  get admitted(): number {
    return this.#cells[this.#at] as number;
  }

  set admitted(count: number) {
    this.#cells[this.#at] = count;
  }

  get throttled(): number {
    return this.#cells[this.#at + 1] as number;
  }

  set throttled(count: number) {
    this.#cells[this.#at + 1] = count;
  }

  get would_throttle(): number {
    return this.#cells[this.#at + 2] as number;
  }

  set would_throttle(count: number) {
    this.#cells[this.#at + 2] = count;
  }

  get exempt(): number {
    return this.#cells[this.#at + 3] as number;
  }

  set exempt(count: number) {
    this.#cells[this.#at + 3] = count;
  }

  get observed(): number {
    return this.#cells[this.#at + 4] as number;
  }

  set observed(count: number) {
    this.#cells[this.#at + 4] = count;
  }

  get unavailable(): number {
    return this.#cells[this.#at + 5] as number;
  }

  set unavailable(count: number) {
    this.#cells[this.#at + 5] = count;
  }
}

/** Counts the outcomes of all policies of a thread. A policy that comes back gets the memory that its name had. */
export class OutcomeMemory {
  readonly ranges = new Map<string, CellRange>();
  readonly #cells: Cells;

  constructor(cells: Cells) {
    this.#cells = cells;
  }

  /** Returns the counts of a policy that is new, which are all 0. */
  take(policy: string): OutcomeCells {
    const range = this.ranges.get(policy) ?? this.#cells.take(outcomes.length);
    this.ranges.set(policy, range);
    range.cells.fill(0, range.at, range.at + outcomes.length);
    return new OutcomeCells(range);
  }
}
