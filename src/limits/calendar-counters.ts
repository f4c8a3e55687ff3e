// The quotas of one policy by periods of the calendar. The wall clock says when a period is over; then the number of the
// period rises, and all keys start again at once. A clock that goes back refills nothing: see core/period-end.ts.
import { createCalendar, longestPeriodMs, type NextBorder } from "../core/calendar.ts";
import type { Clock } from "../core/clock.ts";
import { type ClockReading, latestWallMs, periodEndAt, untilEndMs, untilResetMs } from "../core/period-end.ts";
import type { CalendarPeriod as PeriodName } from "../core/policy.ts";
import type { OwnCount } from "./counters.ts";
import type { CalendarPeriod } from "./table/calendar-period.ts";
import type { CounterTable } from "./table/counter-table.ts";
import type { SlotRules } from "./table/slot-rules.ts";
import type { Span } from "./table/ticks.ts";
import { TableCounters } from "./table-counters.ts";

export interface Calendar {
  readonly per: PeriodName;
  readonly timezone: string;
}

/** The clock of a store; that of this machine for as long as no server of the store has said what its clock shows. */
export interface PeriodClock extends Clock {
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
