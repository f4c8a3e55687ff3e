// The counters of what is under way: of the slots of a policy with `concurrency`, and of the units that a policy with `charge`
// holds until the status of the response is known.
import type { CounterKey } from "../core/counter-key.ts";
import type { CalendarCounters } from "./calendar-counters.ts";
import {
  type Ask,
  type Charged,
  heldRetryMs,
  isSameCell,
  LocalCounters,
  type OwnCount,
  type Reading,
  type SlidingCounters,
} from "./counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import type { Cursor } from "./table/directory.ts";
import type { Forgiven } from "./table/forgiveness.ts";
import { heldSlotOf, kindOf } from "./table/layout.ts";
import type { Inspection, TableView } from "./table/table-view.ts";

const nothingForgiven: Forgiven = { units: 0, keys: 0, coarse: null };

/** Units that are held do not expire. */
const held: Reading = { now: 0, window: Number.POSITIVE_INFINITY, resetMs: 0 };

/**
 * The units that the exchanges under way hold. They are counted by thread, so that those of a thread that has ended can be
 * given back. A store is not told of them: it has their leases, which are renewed.
 */
export class ConcurrencyCounters extends LocalCounters {
  protected override readonly mayEndSoon = true;

  readingAt(nowMs: number): Reading {
    held.resetMs = nowMs + heldRetryMs;
    return held;
  }

  override charge({ cursor, units, nowMs }: Ask): number {
    this.table.addTo(cursor, this.table.thread, units, nowMs);
    return 0;
  }

  protected override remove(cursor: Cursor, { units }: Charged): void {
    this.table.removeFrom(cursor, this.table.thread, units);
  }

  /** What is under way stays under way. */
  override forgive(): Forgiven {
    return nothingForgiven;
  }
}

/**
 * Counts what a policy with `charge` admits: units are held until the status of the response is known. Those that are held
 * are counted a second time, under a slot of their own, at the same instants: they expire together, and the difference is
 * what is kept, which decides whether a refusal lasts. Where the table has no memory for both, they count as kept.
 */
export class ChargedCounters extends LocalCounters {
  /** All units that count, kept and held. */
  readonly all: SlidingCounters | CalendarCounters;

  constructor(all: SlidingCounters | CalendarCounters, table: CounterTable, slot: number) {
    super(table, heldSlotOf(slot), all.rules);
    this.all = all;
  }

  override comeIntoForce(nowMs: number, continues: boolean): void {
    this.all.comeIntoForce(nowMs, continues);
  }

  override select(ask: Ask): void {
    this.all.select(ask);
    this.table.select(ask.heldCursor, this.slot, ask.key, ask.client);
  }

  override ask(ask: Ask, nowMs: number): boolean {
    const fits = this.all.ask(ask, nowMs);
    this.#endSoon(ask, this.#countHeld(ask));
    return fits;
  }

  /** A refusal because of held units alone may end at any moment. */
  #endSoon(ask: Ask, heldUnits: number): void {
    const fitsWithoutHeld = ask.counted >= 0 && ask.counted - heldUnits + ask.units <= ask.limit;
    ask.mayEndSoon = !ask.fits && fitsWithoutHeld && ask.nowMs + heldRetryMs < ask.resetMs;
    if (ask.mayEndSoon) ask.resetMs = ask.nowMs + heldRetryMs;
  }

  override charge(ask: Ask): number {
    const { table } = this;
    const { heldCursor: cursor, units, limit, nowMs } = ask;
    const instant = this.all.charge(ask);
    const joins = isSameCell(table.newest(cursor), instant, this.all.cellTicks(limit));
    // An instant that is not the unit's own would not be found when it ends.
    if (!table.add(cursor, instant, units, joins, nowMs)) table.forget(cursor);
    ask.marks = table.marksOf(cursor);
    return instant;
  }

  /** If the units were forgiven, what is held now is that of later requests. */
  override keep(charged: Charged): void {
    super.giveBack(charged);
  }

  override giveBack(charged: Charged): void {
    // First, because what is held must never be more than all.
    this.keep(charged);
    this.all.giveBack(charged);
  }

  override peek(ask: Ask, nowMs: number): void {
    this.all.peek(ask, nowMs);
    this.#peekHeld(ask);
  }

  override inspect(ask: Ask, nowMs: number, view: TableView, most: number): Inspection {
    return { ...this.all.inspect(ask, nowMs, view, most), heldUnits: this.#peekHeld(ask) };
  }

  #peekHeld(ask: Ask): number {
    this.table.select(ask.heldCursor, this.slot, ask.key, ask.client);
    const units = this.table.locks.within(() => this.table.peek(ask.heldCursor, this.all.readingAt(ask.nowMs)));
    this.#endSoon(ask, units);
    // What the table has forgotten of all is not held either.
    return Math.min(units, ask.counted);
  }

  /** Without the units that are held: nobody knows yet whether they will count. */
  override own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null {
    const all = this.all.own(key, client, nowMs);
    const { table, cursor } = this;
    table.select(cursor, this.slot, key, client);
    const held = table.locks.within(() => table.peek(cursor, this.all.readingAt(nowMs)));
    const units = (all?.units ?? 0) - (table.isOwn(cursor) ? Math.max(0, held) : 0);
    return all === null || units <= 0 ? null : { ...all, units };
  }

  override forgive(key: CounterKey, client: CounterKey | null, nowMs: number): Forgiven {
    return this.all.forgive(key, client, nowMs);
  }

  readingAt(nowMs: number): Reading {
    return this.all.readingAt(nowMs);
  }

  override cellTicks(limit: number): number {
    return this.all.cellTicks(limit);
  }

  /** Returns how many of the units that were counted are held. Makes room for one that is about to be. */
  #countHeld({ heldCursor, cursor, fits, counted, nowMs }: Ask): number {
    const { table } = this;
    const reading = this.all.readingAt(nowMs);
    const units = fits ? table.count(heldCursor, reading, nowMs) : table.peek(heldCursor, reading);
    // Counted by the client or its network, in one slot only: both numbers are about different keys.
    if (units <= 0 || kindOf(heldCursor.identity) !== kindOf(cursor.identity)) return 0;
    if (units <= counted) return units;
    // The table has forgotten what was counted of the key.
    table.forget(heldCursor);
    return 0;
  }
}
