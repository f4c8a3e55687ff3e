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

/** Hands out memory. It is never returned to the system, so a caller gives back what a reload has replaced. */
export class Cells {
  #cells: Float64Array = new Float64Array(0);
  #used = 0;
  /** By their count. */
  readonly #free = new Map<number, CellRange[]>();

  /** Returns numbers that are 0. */
  take(count: number): CellRange {
    const free = this.#free.get(count)?.pop();
    if (free !== undefined) return free;
    if (this.#used + count > this.#cells.length) {
      const bytes = Float64Array.BYTES_PER_ELEMENT * Math.max(count, cellsInBlock);
      this.#cells = new Float64Array(new SharedArrayBuffer(bytes));
      this.#used = 0;
    }
    const at = this.#used;
    this.#used += count;
    return { cells: this.#cells, at };
  }

  /** Nobody counts there any more. `count`: as many as were taken. */
  give({ cells, at }: CellRange, count: number): void {
    cells.fill(0, at, at + count);
    const free = this.#free.get(count) ?? [];
    this.#free.set(count, free);
    free.push({ cells, at });
  }
}

/** More than a configuration has, so that those before a reload on trial are still there when it is taken back. */
const maxReplaced = 64;

/** Makes something for each name of a configuration. Keeps those of the last names that reloads have replaced, which may come back. */
export class MadeByName<Made> {
  /** The name that was used last is at the end. */
  readonly all = new Map<string, Made>();
  readonly #make: (name: string) => Made;
  readonly #remove: (made: Made) => void;

  constructor(make: (name: string) => Made, remove: (made: Made) => void) {
    this.#make = make;
    this.#remove = remove;
  }

  use(name: string): Made {
    const made = this.all.get(name) ?? this.#make(name);
    this.all.delete(name);
    this.all.set(name, made);
    return made;
  }

  /** Of the names that are not in force, removes those that have not been used for the longest time. */
  forget(inForce: readonly string[]): void {
    let over = this.all.size - inForce.length - maxReplaced;
    for (const [name, made] of this.all) {
      if (over <= 0) return;
      if (inForce.includes(name)) continue;
      this.all.delete(name);
      this.#remove(made);
      over -= 1;
    }
  }
}

/** What counts in cells. */
export class InCells {
  protected readonly cells: Float64Array;
  protected readonly at: number;

  constructor({ cells, at }: CellRange) {
    this.cells = cells;
    this.at = at;
  }
}

/** Counts the outcomes of a policy. */
export class OutcomeCells extends InCells implements Record<Outcome, number> {
  declare admitted: number;
  declare throttled: number;
  declare would_throttle: number;
  declare exempt: number;
  declare observed: number;
  declare unavailable: number;

  static {
    // In the order of `outcomes`, each with functions of its own: an access by a computed index would take several times longer.
    for (const [i, outcome] of outcomes.entries()) {
      Object.defineProperty(OutcomeCells.prototype, outcome, {
        get(this: OutcomeCells) {
          return this.cells[this.at + i];
        },
        set(this: OutcomeCells, count: number) {
          this.cells[this.at + i] = count;
        },
      });
    }
  }
}

/** Counts the outcomes of all policies of a thread. A policy that comes back gets the memory that its name had. */
export class OutcomeMemory {
  readonly #byName: MadeByName<CellRange>;

  constructor(cells: Cells) {
    const { length } = outcomes;
    this.#byName = new MadeByName(
      () => cells.take(length),
      (range) => cells.give(range, length),
    );
  }

  /** By policy. */
  get ranges(): ReadonlyMap<string, CellRange> {
    return this.#byName.all;
  }

  /** Returns the counts of a policy that is new, which are all 0. `inForce`: the policies before the reload. */
  take(policy: string, inForce: readonly string[]): OutcomeCells {
    const range = this.#byName.use(policy);
    range.cells.fill(0, range.at, range.at + outcomes.length);
    this.#byName.forget(inForce);
    return new OutcomeCells(range);
  }
}
