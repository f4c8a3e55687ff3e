// The period of a calendar policy that all threads count in: its number, and its end. The number rises before the end is
// written, so a thread that reads the new end finds the new number; and the border is written last, so that a thread which
// still reads the old one does not begin the next period again.
import type { PeriodEnd } from "../../core/period-end.ts";
import { calendarAt, calendarWords, header } from "./layout.ts";
import type { Locks } from "./locks.ts";

export class CalendarPeriod implements PeriodEnd {
  readonly #w: Int32Array;
  readonly #at: number;
  readonly #locks: Locks;

  constructor(w: Int32Array, slot: number, locks: Locks) {
    this.#w = w;
    this.#at = calendarAt(slot);
    this.#locks = locks;
  }

  get number(): number {
    return Atomics.load(this.#w, this.#at + calendarWords.number);
  }

  get endMs(): number {
    return (Atomics.load(this.#w, this.#at + calendarWords.end) >>> 0) * 1000;
  }

  /** By the table's time, rounded up to a second. */
  get dueMs(): number {
    return Atomics.load(this.#w, this.#at + calendarWords.due) * 1000;
  }

  /** The same. */
  get lastMs(): number {
    return Atomics.load(this.#w, this.#at + calendarWords.last) * 1000;
  }

  /** Whether the end was computed by a clock that may not be the right one. */
  get isGuess(): boolean {
    return Atomics.load(this.#w, this.#at + calendarWords.guess) !== 0;
  }

  /** Sets the end, unless another thread has done so since `seenEndMs` was read. `begins`: the next period. */
  setEnd(end: PeriodEnd, seenEndMs: number, begins: boolean, isGuess = false): void {
    this.#locks.takeAlone(header.calendarLock);
    if (this.endMs === seenEndMs) this.restore(begins ? this.number + 1 : this.number, end, isGuess);
    this.#locks.free(header.calendarLock);
  }

  /** Before traffic, or when the policy of the slot is gone. */
  restore(number: number, { endMs, dueMs, lastMs }: PeriodEnd, isGuess = false): void {
    Atomics.store(this.#w, this.#at + calendarWords.guess, isGuess ? 1 : 0);
    Atomics.store(this.#w, this.#at + calendarWords.number, number);
    // What was a whole second stays one, whatever sums of fractions have added to it.
    Atomics.store(this.#w, this.#at + calendarWords.due, Math.ceil(Math.round(dueMs) / 1000));
    Atomics.store(this.#w, this.#at + calendarWords.last, Math.ceil(Math.round(lastMs) / 1000));
    Atomics.store(this.#w, this.#at + calendarWords.end, Math.ceil(endMs / 1000));
  }
}
