// Counts what a policy with `charge` admits: units are held until the status of the response is known. Those that are held
// are counted a second time, under a slot of their own, at the same instants: they expire together, and the difference is
// what is kept, which decides whether a refusal lasts. Where the table has no memory for both, they count as kept.
import type { CounterKey } from "../core/counter-key.ts";
import type { CalendarCounters } from "./calendar-counters.ts";
import { type Counters, heldRetryMs, type LocalCounters, type OwnCount } from "./counters.ts";
import type { SlidingCounters } from "./sliding-counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import { Cursor } from "./table/cursor.ts";
import { heldSlotOf, kindOf } from "./table/layout.ts";

export class ChargedCounters implements LocalCounters {
  remaining = 0;
  resetMs = 0;
  mayEndSoon = false;
  /** All units that count, kept and held. */
  readonly all: SlidingCounters | CalendarCounters;
  readonly #table: CounterTable;
  /** Of the units that are held. */
  readonly #slot: number;
  readonly #cursor = new Cursor();
  readonly #retirements: number;
  // What was asked last.
  #limit = 0;
  #units = 0;
  #nowMs = 0;

  constructor(all: SlidingCounters | CalendarCounters, table: CounterTable, slot: number) {
    this.all = all;
    this.#table = table;
    this.#slot = heldSlotOf(slot);
    this.#retirements = table.retirementsOf(this.#slot);
  }

  select(key: CounterKey, client: CounterKey): void {
    this.all.select(key, client);
    this.#table.select(this.#cursor, this.#slot, key, client);
  }

  ask(limit: number, units: number, nowMs: number): boolean {
    const { all } = this;
    this.#limit = limit;
    this.#units = units;
    this.#nowMs = nowMs;
    const fits = all.ask(limit, units, nowMs);
    this.remaining = all.remaining;
    this.resetMs = all.resetMs;
    const held = this.#countHeld(fits);
    const fitsWithoutHeld = all.counted >= 0 && all.counted - held + units <= limit;
    this.mayEndSoon = !fits && fitsWithoutHeld && nowMs + heldRetryMs < this.resetMs;
    if (this.mayEndSoon) this.resetMs = nowMs + heldRetryMs;
    return fits;
  }

  charge(): number {
    const instant = this.all.charge();
    const newest = this.#table.newest(this.#cursor);
    const joins = newest !== undefined && this.#cellOf(newest) === this.#cellOf(instant);
    // An instant that is not the unit's own would not be found when it ends.
    if (!this.#table.add(this.#cursor, instant, this.#units, joins, this.#nowMs)) this.#table.forget(this.#cursor);
    return instant;
  }

  keep(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void {
    const { locks } = this.#table;
    // Another policy may have the slot of one that is gone.
    if (this.#table.retirementsOf(this.#slot) !== this.#retirements) return;
    this.#table.select(this.#cursor, this.#slot, key, client);
    locks.acquire();
    try {
      this.#table.remove(this.#cursor, charged, units, this.all.cellTicks(limit));
    } finally {
      locks.release();
    }
  }

  giveBack(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void {
    // First, because what is held must never be more than all.
    this.keep(key, client, limit, units, charged);
    this.all.giveBack(key, client, limit, units, charged);
  }

  peek(key: CounterKey, client: CounterKey, limit: number, nowMs: number, units = 1): void {
    this.all.peek(key, client, limit, nowMs, units);
    this.remaining = this.all.remaining;
    this.resetMs = this.all.resetMs;
  }

  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null {
    return this.all.own(key, client, nowMs);
  }

  unspentResetMs(nowMs: number): number {
    return this.all.unspentResetMs(nowMs);
  }

  /** Returns how many of the units that `all` has just counted are held. `makesRoom`: for one that is about to be. */
  #countHeld(makesRoom: boolean): number {
    const { all } = this;
    const table = this.#table;
    const cursor = this.#cursor;
    const held = makesRoom ? table.count(cursor, all.span, this.#nowMs) : table.peek(cursor, all.span);
    // Counted by the client or its network, in one slot only: both numbers are about different keys.
    if (held <= 0 || kindOf(cursor.identity) !== kindOf(all.cursor.identity)) return 0;
    if (held <= all.counted) return held;
    // The table has forgotten what was counted of the key.
    table.forget(cursor);
    return 0;
  }

  #cellOf(instant: number): number {
    return Math.floor((instant >>> 0) / this.all.cellTicks(this.#limit));
  }
}

/** The counters that a policy of the same name, kind and key counts all units with, whether it charges by status or not. */
export function allUnits(counters: Counters | null): Counters | null {
  return counters instanceof ChargedCounters ? counters.all : counters;
}
