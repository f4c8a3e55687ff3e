// What a policy counts with, whatever its kind. Two steps, because several policies are asked before any is charged.
// An answer is in fields until the next call, because an object for each policy and request would cost more.

import type { Clock } from "../core/clock.ts";
import type { CounterKey } from "../core/counter-key.ts";
import type { CalendarPeriod as PeriodName, Policy } from "../core/policy.ts";
import {
  type ClockReading,
  createCalendar,
  latestWallMs,
  longestPeriodMs,
  type NextBorder,
  periodEndAt,
  untilEndMs,
  untilResetMs,
} from "./calendar.ts";
import type { CalendarPeriod, CounterTable } from "./table/counter-table.ts";
import { Cursor } from "./table/directory.ts";
import { rulesOf, type SlotRules } from "./table/eviction.ts";
import { ageOf, later, type Span, tickNow, tickOf } from "./table/key-log.ts";
import { heldSlotOf, kindOf } from "./table/layout.ts";

/** What counts of a key. */
export interface OwnCount {
  readonly units: number;
  /** How long ago the newest of them was spent, in milliseconds. */
  readonly ageMs: number;
  /** When the period ends that they count in, by the wall clock; 0 if they count in none. */
  readonly periodEndMs: number;
}

export interface Counters {
  /** What is left after the request that was asked about; if it was refused, what is left without it. */
  readonly remaining: number;
  /** The monotonic instant at which more becomes available; if refused, at which the units fit. */
  readonly resetMs: number;
  /**
   * Chooses the key that the next calls are about, and adds its lock to those that the table takes. `client`: counted in
   * place of the key if there is no room for it.
   */
  select(key: CounterKey, client: CounterKey): void;
  /** Returns whether `units` fit below `limit`. Charges nothing. The table's locks must be held. */
  ask(limit: number, units: number, nowMs: number): boolean;
  /** Charges what `ask` has admitted. The locks must have been held since. Returns what `giveBack` needs. */
  charge(): number;
  /**
   * Sets `remaining` and `resetMs` without asking for units; takes and frees the locks. `units`: what a request would
   * spend; if that does not fit, `resetMs` is when it does. Default: 1.
   */
  peek(key: CounterKey, client: CounterKey, limit: number, nowMs: number, units?: number): void;
  /** Gives units back, if they are still counted; takes and frees the locks. `charged`: what `charge` has returned. */
  giveBack(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void;
  /** What was charged stays charged: `giveBack` will not be called. Takes and frees the locks. */
  keep(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void;
  /** What counts of a key; null if nothing does, or if it is not counted by itself. Takes and frees the locks. */
  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null;
  /** Returns the reset of a key with nothing stored. */
  unspentResetMs(nowMs: number): number;
}

/** Nobody knows when an exchange ends, so a client that may be admitted then is told to ask again after this time. */
export const heldRetryMs = 1000;

/** Those of this process. */
export interface LocalCounters extends Counters {
  /** Whether a request under way may end the refusal. Nobody knows when, so `resetMs` promises nothing. */
  readonly mayEndSoon: boolean;
}

// What the counters of all kinds have in common: a slot of the table, and the locks around a look and a return. What a kind
// adds is how it counts.

abstract class TableCounters implements LocalCounters {
  remaining = 0;
  resetMs = 0;
  readonly mayEndSoon: boolean = false;
  protected readonly table: CounterTable;
  protected readonly slot: number;
  /** Of what was looked at last. */
  readonly cursor = new Cursor();
  readonly #retirements: number;

  constructor(table: CounterTable, slot: number) {
    this.table = table;
    this.slot = slot;
    this.#retirements = table.retirementsOf(slot);
  }

  select(key: CounterKey, client: CounterKey): void {
    this.table.select(this.cursor, this.slot, key, client);
  }

  peek(key: CounterKey, client: CounterKey, limit: number, nowMs: number, units = 1): void {
    const { locks } = this.table;
    this.select(key, client);
    locks.acquire();
    try {
      this.look(limit, nowMs, units);
    } finally {
      locks.release();
    }
  }

  keep(): void {
    // The table knows nothing about a single charge.
  }

  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null {
    const { locks } = this.table;
    this.select(key, client);
    locks.acquire();
    try {
      return this.lookAtOwn(nowMs);
    } finally {
      locks.release();
    }
  }

  giveBack(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void {
    const { locks } = this.table;
    // Another policy may have the slot of one that is gone.
    if (this.table.retirementsOf(this.slot) !== this.#retirements) return;
    this.select(key, client);
    locks.acquire();
    try {
      this.remove(limit, units, charged);
    } finally {
      locks.release();
    }
  }

  abstract ask(limit: number, units: number, nowMs: number): boolean;
  abstract charge(): number;
  abstract unspentResetMs(nowMs: number): number;
  /** `peek` of the key that is selected, with the locks held. */
  protected abstract look(limit: number, nowMs: number, units: number): void;
  /** `own` of the key that is selected, with the locks held. */
  protected abstract lookAtOwn(nowMs: number): OwnCount | null;
  /** `giveBack` of the key that is selected, with the locks held. */
  protected abstract remove(limit: number, units: number, charged: number): void;
}

// The exact sliding windows of one policy. After a reload, the new policy goes on with the keys of the old one with its
// own window, from its first request on. Requests that the old policy still has then use the new window too: by a
// shorter one they would forget what the new policy counts.

/** Above this limit, admissions that are close in time are one pair: a client takes less memory. */
const exactLimit = 10_000;
/** Cells of a window. A cell counts until its last admission expires. */
const cells = 4096;

/** What the policies before and after a reload share. */
interface WindowInForce {
  /** Of the newest policy that has been asked, and the number of reloads before it. */
  windowMs: number;
  generation: number;
}

export class SlidingCounters extends TableCounters {
  readonly #rules: SlotRules;
  readonly #own: Readonly<WindowInForce>;
  readonly #inForce: WindowInForce;
  /** What was counted when it was asked last, -1 if there is no room for the key; and by what. */
  counted = 0;
  readonly span: Span = { now: 0, window: 0 };
  #limit = 0;
  #units = 0;
  #nowMs = 0;

  constructor(table: CounterTable, slot: number, rules: SlotRules, previous: SlidingCounters | null = null) {
    super(table, slot);
    this.#rules = rules;
    this.#own = { windowMs: rules.windowMs, generation: previous === null ? 0 : previous.#own.generation + 1 };
    this.#inForce = previous === null ? { ...this.#own } : previous.#inForce;
    if (previous === null) table.configure(slot, rules);
  }

  ask(limit: number, units: number, nowMs: number): boolean {
    const cursor = this.cursor;
    const counted = this.table.count(cursor, this.#spanAt(nowMs), nowMs);
    this.counted = counted;
    this.#limit = limit;
    this.#units = units;
    this.#nowMs = nowMs;
    if (counted >= 0 && counted + units <= limit) {
      this.remaining = limit - counted - units;
      this.resetMs = counted === 0 ? Math.ceil(nowMs) + this.span.window : this.#expiryOf(1, nowMs);
      return true;
    }
    // Without room for a key nobody knows its units. After a window, keys that are stored now have gone.
    this.remaining = counted < 0 ? 0 : Math.max(0, limit - counted);
    const excess = counted + units - limit;
    // With none or too few that could expire, a higher limit has to be configured first.
    if (counted < 0 || excess > counted) {
      this.resetMs = nowMs + this.span.window;
      return false;
    }
    this.resetMs = this.#expiryOf(excess, nowMs);
    this.table.markExhausted(cursor, true);
    return false;
  }

  charge(): number {
    const table = this.table;
    const cursor = this.cursor;
    const newest = table.newest(cursor);
    const tick = tickOf(this.#nowMs);
    const instant = newest === undefined ? tick : later(newest, tick);
    const joins = newest !== undefined && this.#cellOf(newest) === this.#cellOf(instant);
    table.add(cursor, instant, this.#units, joins, this.#nowMs);
    table.markExhausted(cursor, this.counted + 2 * this.#units > this.#limit);
    return instant;
  }

  protected look(limit: number, nowMs: number, units: number): void {
    const counted = this.table.peek(this.cursor, this.#spanAt(nowMs));
    this.remaining = Math.max(0, limit - counted);
    // After the limit was lowered, several have to expire before a request fits.
    const first = Math.max(1, counted + units - limit);
    this.resetMs = counted === 0 ? nowMs + this.span.window : this.#expiryOf(Math.min(first, counted), nowMs);
  }

  protected lookAtOwn(nowMs: number): OwnCount | null {
    const span = this.#spanAt(nowMs);
    const units = this.table.peek(this.cursor, span);
    const newest = this.table.newest(this.cursor);
    if (units === 0 || newest === undefined || !this.table.isOwn(this.cursor)) return null;
    return { units, ageMs: Math.max(0, ageOf(newest, span.now)), periodEndMs: 0 };
  }

  protected remove(limit: number, units: number, instant: number): void {
    this.table.remove(this.cursor, instant, units, this.cellTicks(limit));
  }

  unspentResetMs(nowMs: number): number {
    return nowMs + this.#own.windowMs;
  }

  /** The monotonic instant at which a unit expires. */
  #expiryOf(unit: number, nowMs: number): number {
    const tick = this.table.instantOf(this.cursor, unit);
    return Math.floor(nowMs) - ageOf(tick, this.span.now) + this.span.window;
  }

  #spanAt(nowMs: number): Span {
    this.span.now = tickNow(nowMs);
    this.span.window = this.#comeIntoForce();
    return this.span;
  }

  #cellOf(instant: number): number {
    return this.#limit > exactLimit ? Math.floor((instant >>> 0) / this.cellTicks(this.#limit)) : instant;
  }

  /** Instants that are in the same so many ticks are one pair, with this limit. */
  cellTicks(limit: number): number {
    return limit > exactLimit ? Math.max(1, Math.floor(this.#inForce.windowMs / cells)) : 1;
  }

  /** Returns the window to use. With the first request, because a limiter that is never used must change nothing. */
  #comeIntoForce(): number {
    const { windowMs, generation } = this.#own;
    if (generation > this.#inForce.generation) {
      this.#inForce.windowMs = windowMs;
      this.#inForce.generation = generation;
      this.table.configure(this.slot, this.#rules);
    }
    return this.#inForce.windowMs;
  }
}

// The quotas of one policy by periods of the calendar. The wall clock says when a period is over; then the number of the
// period rises, and all keys start again at once. A clock that goes back refills nothing: see calendar.ts.

interface Calendar {
  readonly per: PeriodName;
  readonly timezone: string;
}

/** The clock of a store; that of this machine for as long as no server of the store has said what its clock shows. */
interface PeriodClock extends Clock {
  readonly isGuess?: () => boolean;
}

/** What the policies before and after a reload share. */
interface CalendarInForce {
  calendar: Calendar;
  nextBorder: NextBorder;
}

export class CalendarCounters extends TableCounters {
  readonly #rules: SlotRules;
  readonly #period: CalendarPeriod;
  readonly #clock: PeriodClock;
  readonly #calendar: Calendar;
  readonly #nextBorder: NextBorder;
  readonly #inForce: CalendarInForce;
  #isInForce: boolean;
  /** What was counted when it was asked last, -1 if there is no room for the key; and by what: only its own period counts. */
  counted = 0;
  readonly span: Span = { now: 0, window: 1 };
  #limit = 0;
  #units = 0;
  #nowMs = 0;

  /** Throws a RangeError if the runtime does not know the time zone. */
  constructor(
    table: CounterTable,
    slot: number,
    rules: SlotRules,
    calendar: Calendar,
    clock: PeriodClock,
    previous: CalendarCounters | null = null,
  ) {
    super(table, slot);
    const isSame = previous !== null && isSameCalendar(calendar, previous.#calendar);
    this.#rules = rules;
    if (previous === null) table.configure(slot, rules);
    this.#period = table.periodOf(slot);
    this.#nextBorder = isSame ? previous.#nextBorder : createCalendar(calendar.per, calendar.timezone);
    this.#calendar = calendar;
    this.#clock = clock;
    this.#isInForce = previous === null;
    this.#inForce = previous === null ? { calendar, nextBorder: this.#nextBorder } : previous.#inForce;
  }

  get periodEnd(): CalendarPeriod {
    return this.#period;
  }

  ask(limit: number, units: number, nowMs: number): boolean {
    this.resetMs = this.unspentResetMs(nowMs);
    this.span.now = this.#period.number;
    const counted = this.table.count(this.cursor, this.span, nowMs);
    this.counted = counted;
    this.#limit = limit;
    this.#units = units;
    this.#nowMs = nowMs;
    const fits = counted >= 0 && counted + units <= limit;
    this.remaining = counted < 0 ? 0 : Math.max(0, limit - counted - (fits ? units : 0));
    if (!fits) this.table.markExhausted(this.cursor, true);
    return fits;
  }

  charge(): number {
    const table = this.table;
    const period = this.span.now;
    table.add(this.cursor, period, this.#units, table.newest(this.cursor) === period, this.#nowMs);
    table.markExhausted(this.cursor, this.counted + 2 * this.#units > this.#limit);
    return period;
  }

  /** As of a window: instants are the numbers of periods. */
  cellTicks(_limit: number): number {
    return 1;
  }

  protected look(limit: number, nowMs: number): void {
    this.resetMs = this.unspentResetMs(nowMs);
    this.span.now = this.#period.number;
    this.remaining = Math.max(0, limit - this.table.peek(this.cursor, this.span));
  }

  protected lookAtOwn(): OwnCount | null {
    this.span.now = this.#period.number;
    const units = this.table.peek(this.cursor, this.span);
    return units === 0 || !this.table.isOwn(this.cursor) ? null : { units, ageMs: 0, periodEndMs: this.#period.endMs };
  }

  protected remove(_limit: number, units: number, period: number): void {
    this.table.remove(this.cursor, period, units, 1);
  }

  unspentResetMs(nowMs: number): number {
    return nowMs + this.#untilResetMs(nowMs);
  }

  /** Reads the wall clock, begins the next period if it is time to, and returns how long the period still lasts. */
  #untilResetMs(nowMs: number): number {
    const period = this.#period;
    const wallMs = this.#clock.wallMs();
    const seenEndMs = period.endMs;
    if (untilEndMs(period, wallMs, nowMs) <= 0) this.#setEnd({ wallMs, nowMs }, seenEndMs, true);
    else if (period.isGuess && !this.#isGuess) this.#setEnd({ wallMs, nowMs }, seenEndMs, false);
    if (!this.#isInForce) this.#comeIntoForce({ wallMs, nowMs });
    return untilResetMs(period, wallMs, nowMs);
  }

  get #isGuess(): boolean {
    return this.#clock.isGuess?.() === true;
  }

  #setEnd(reading: ClockReading, seenEndMs: number, begins: boolean): void {
    const { nextBorder, calendar } = this.#inForce;
    const isGuess = this.#isGuess;
    // A clock that is known now has not gone back.
    const latestMs = this.#period.isGuess && !isGuess ? reading.wallMs : latestWallMs(this.#period, reading);
    const end = periodEndAt(nextBorder, longestPeriodMs[calendar.per], latestMs, reading);
    this.#period.setEnd(end, seenEndMs, begins, isGuess);
  }

  /** With the first request after a reload, because a limiter that is never used must change nothing. */
  #comeIntoForce(reading: ClockReading): void {
    this.#isInForce = true;
    this.table.configure(this.slot, this.#rules);
    if (isSameCalendar(this.#calendar, this.#inForce.calendar)) return;
    this.#inForce.calendar = this.#calendar;
    this.#inForce.nextBorder = this.#nextBorder;
    this.#setEnd(reading, this.#period.endMs, false);
  }
}

function isSameCalendar(a: Calendar, b: Calendar): boolean {
  return a.per === b.per && a.timezone === b.timezone;
}

// The units that the exchanges under way hold, by key. They are counted by thread, so that those of a thread that has
// ended can be given back.

/** Units that are held do not expire. */
const span: Span = { now: 0, window: Number.POSITIVE_INFINITY };

export class ConcurrencyCounters extends TableCounters {
  override readonly mayEndSoon = true;
  #units = 0;
  #nowMs = 0;

  constructor(table: CounterTable, slot: number, rules: SlotRules) {
    super(table, slot);
    table.configure(slot, rules);
  }

  ask(limit: number, units: number, nowMs: number): boolean {
    const taken = this.table.count(this.cursor, span, nowMs);
    const fits = taken >= 0 && taken + units <= limit;
    this.#units = units;
    this.#nowMs = nowMs;
    this.remaining = taken < 0 ? 0 : Math.max(0, limit - taken - (fits ? units : 0));
    this.resetMs = this.unspentResetMs(nowMs);
    return fits;
  }

  charge(): number {
    this.table.addTo(this.cursor, this.table.thread, this.#units, this.#nowMs);
    return 0;
  }

  protected look(limit: number, nowMs: number): void {
    this.remaining = Math.max(0, limit - this.table.peek(this.cursor, span));
    this.resetMs = this.unspentResetMs(nowMs);
  }

  /** Slots are told by renewing their leases. */
  protected lookAtOwn(): null {
    return null;
  }

  protected remove(_limit: number, units: number): void {
    this.table.removeFrom(this.cursor, this.table.thread, units);
  }

  unspentResetMs(nowMs: number): number {
    return nowMs + heldRetryMs;
  }
}

// Counts what a policy with `charge` admits: units are held until the status of the response is known. Those that are held
// are counted a second time, under a slot of their own, at the same instants: they expire together, and the difference is
// what is kept, which decides whether a refusal lasts. Where the table has no memory for both, they count as kept.

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

// Makes the counters of a policy, or continues those of the same policy before a reload.

/** `slot`: of the policy in the table. `previous`: of the policy that this one continues after a reload; null if none. */
export function createCounters(
  policy: Policy,
  table: CounterTable,
  slot: number,
  clock: PeriodClock,
  previous: Counters | null,
): LocalCounters {
  const { rate, chargeStatuses } = policy;
  const rules = rulesOf(policy);
  if (rate.kind === "concurrency") return new ConcurrencyCounters(table, slot, rules);
  const before = allUnits(previous);
  const all =
    rate.kind === "sliding"
      ? new SlidingCounters(table, slot, rules, before instanceof SlidingCounters ? before : null)
      : new CalendarCounters(table, slot, rules, rate, clock, before instanceof CalendarCounters ? before : null);
  return chargeStatuses === null ? all : new ChargedCounters(all, table, slot);
}
