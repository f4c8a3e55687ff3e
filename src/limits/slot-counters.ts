// The counters of what is under way: of the slots of a policy with `concurrency`, and of the units that a policy with `charge`
// holds until the status of the response is known.
import type { CounterKey } from "../core/counter-key.ts";
import type { CalendarCounters } from "./calendar-counters.ts";
import {
  type Ask,
  type Charged,
  heldRetryMs,
  isSameCell,
  type LocalCounters,
  type OwnCount,
  type Reading,
  type SlidingCounters,
  TableCounters,
} from "./counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import { Cursor } from "./table/directory.ts";
import { type Forgiven, isForgivenSince } from "./table/forgiveness.ts";
import { heldSlotOf, kindOf } from "./table/layout.ts";
import type { Inspection, TableView } from "./table/table-view.ts";

const nothingForgiven: Forgiven = { units: 0, keys: 0, coarse: null };

/** Units that are held do not expire. */
const held: Reading = { now: 0, window: Number.POSITIVE_INFINITY, resetMs: 0 };

/**
 * The units that the exchanges under way hold. They are counted by thread, so that those of a thread that has ended can be
 * given back.
 */
export class ConcurrencyCounters extends TableCounters {
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

  /** Slots are told by renewing their leases. */
  protected ownOf(): null {
    return null;
  }
}

/**
 * Counts what a policy with `charge` admits: units are held until the status of the response is known. Those that are held
 * are counted a second time, under a slot of their own, at the same instants: they expire together, and the difference is
 * what is kept, which decides whether a refusal lasts. Where the table has no memory for both, they count as kept.
 */
export class ChargedCounters implements LocalCounters {
  /** All units that count, kept and held. */
  readonly all: SlidingCounters | CalendarCounters;
  readonly #table: CounterTable;
  /** Of the units that are held. */
  readonly #slot: number;
  readonly #cursor = new Cursor();
  readonly #retirements: number;

  constructor(all: SlidingCounters | CalendarCounters, table: CounterTable, slot: number) {
    this.all = all;
    this.#table = table;
    this.#slot = heldSlotOf(slot);
    this.#retirements = table.retirementsOf(this.#slot);
  }

  comeIntoForce(nowMs: number, continues: boolean): void {
    this.all.comeIntoForce(nowMs, continues);
  }

  select(ask: Ask): void {
    this.all.select(ask);
    this.#table.select(ask.heldCursor, this.#slot, ask.key, ask.client);
  }

  ask(ask: Ask, nowMs: number): boolean {
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

  charge(ask: Ask): number {
    const table = this.#table;
    const { heldCursor: cursor, units, limit, nowMs } = ask;
    const instant = this.all.charge(ask);
    const joins = isSameCell(table.newest(cursor), instant, this.all.cellTicks(limit));
    // An instant that is not the unit's own would not be found when it ends.
    if (!table.add(cursor, instant, units, joins, nowMs)) table.forget(cursor);
    ask.marks = table.marksOf(cursor);
    return instant;
  }

  keep({ key, client, limit, units, charged, marks }: Charged): void {
    const [table, cursor] = [this.#table, this.#cursor];
    // Another policy may have the slot of one that is gone.
    if (table.retirementsOf(this.#slot) !== this.#retirements) return;
    table.select(cursor, this.#slot, key, client);
    table.locks.within(() => {
      // What was held then is forgotten, and what is held now is that of later requests.
      if (isForgivenSince(marks, table.marksOf(cursor))) return;
      table.remove(cursor, charged, units, this.all.cellTicks(limit));
    });
  }

  giveBack(charged: Charged): void {
    // First, because what is held must never be more than all.
    this.keep(charged);
    this.all.giveBack(charged);
  }

  peek(ask: Ask, nowMs: number): void {
    this.all.peek(ask, nowMs);
    this.#peekHeld(ask);
  }

  inspect(ask: Ask, nowMs: number, view: TableView, most: number): Inspection {
    return { ...this.all.inspect(ask, nowMs, view, most), heldUnits: this.#peekHeld(ask) };
  }

  #peekHeld(ask: Ask): number {
    this.#table.select(ask.heldCursor, this.#slot, ask.key, ask.client);
    const units = this.#table.locks.within(() => this.#table.peek(ask.heldCursor, this.all.readingAt(ask.nowMs)));
    this.#endSoon(ask, units);
    // What the table has forgotten of all is not held either.
    return Math.min(units, ask.counted);
  }

  /** Without the units that are held: nobody knows yet whether they will count. */
  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null {
    const all = this.all.own(key, client, nowMs);
    const [table, cursor] = [this.#table, this.#cursor];
    table.select(cursor, this.#slot, key, client);
    const held = table.locks.within(() => table.peek(cursor, this.all.readingAt(nowMs)));
    const units = (all?.units ?? 0) - (table.isOwn(cursor) ? Math.max(0, held) : 0);
    return all === null || units <= 0 ? null : { ...all, units };
  }

  forgive(key: CounterKey, client: CounterKey | null, nowMs: number): Forgiven {
    return this.all.forgive(key, client, nowMs);
  }

  unspentResetMs(nowMs: number): number {
    return this.all.unspentResetMs(nowMs);
  }

  readingAt(nowMs: number): Reading {
    return this.all.readingAt(nowMs);
  }

  /** Returns how many of the units that were counted are held. Makes room for one that is about to be. */
  #countHeld({ heldCursor, cursor, fits, counted, nowMs }: Ask): number {
    const table = this.#table;
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
