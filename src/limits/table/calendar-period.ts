// The period of a calendar policy that all threads count in: its number, and its end by the wall clock. The number rises
// before the end is written, so a thread that reads the new end finds the new number.
import { header } from "./layout.ts";
import type { Locks } from "./locks.ts";

export class CalendarPeriod {
  readonly #w: Int32Array;
  readonly #at: number;
  readonly #locks: Locks;

  constructor(w: Int32Array, slot: number, locks: Locks) {
    this.#w = w;
    this.#at = header.calendars + 2 * slot;
    this.#locks = locks;
  }

  get number(): number {
    return Atomics.load(this.#w, this.#at);
  }

  /** Unix milliseconds; 0 before the first period. */
  get endMs(): number {
    return (Atomics.load(this.#w, this.#at + 1) >>> 0) * 1000;
  }

  /** Sets the end, unless another thread has done so since `seenEndMs` was read. `begins`: the next period. */
  setEnd(endMs: number, seenEndMs: number, begins: boolean): void {
    this.#locks.takeAlone(header.calendarLock);
    if (this.endMs === seenEndMs) {
      if (begins) Atomics.store(this.#w, this.#at, this.number + 1);
      Atomics.store(this.#w, this.#at + 1, Math.ceil(endMs / 1000));
    }
    this.#locks.free(header.calendarLock);
  }

  /** Before traffic, or when the policy of the slot is gone. */
  restore(number: number, endMs: number): void {
    Atomics.store(this.#w, this.#at, number);
    Atomics.store(this.#w, this.#at + 1, Math.ceil(endMs / 1000));
  }
}
