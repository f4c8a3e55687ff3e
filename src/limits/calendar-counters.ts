// The quotas of one policy by periods of the calendar. The wall clock says when a period is over; then the number of the
// period rises, and all keys start again at once. A clock that goes back refills nothing: the period lasts until its
// end, or, if that is more than two periods away, until the end of the one that the clock shows now.
import { createCalendar, type NextBorder } from "../core/calendar.ts";
import type { Clock } from "../core/clock.ts";
import { PeriodCount } from "../core/period-count.ts";
import type { CalendarPeriod } from "../core/policy.ts";
import type { Counters } from "./counters.ts";
import { type TableStats, WindowTable } from "./window-table.ts";

export interface Calendar {
  readonly per: CalendarPeriod;
  readonly timezone: string;
}

/** The counters count in periods, and each counts in its own only. */
const windowPeriods = 1;

const longestMs: Readonly<Record<CalendarPeriod, number>> = {
  minute: 60_000,
  hour: 3_600_000,
  // With a change of the clocks.
  day: 25 * 3_600_000,
  month: (31 * 24 + 1) * 3_600_000,
};

/** What the policies before and after a reload share. */
interface Quotas {
  readonly table: WindowTable<PeriodCount>;
  calendar: Calendar;
  nextBorder: NextBorder;
  period: number;
  endWallMs: number;
}

export class CalendarCounters implements Counters {
  resetMs = 0;
  readonly #clock: Clock;
  readonly #calendar: Calendar;
  readonly #nextBorder: NextBorder;
  readonly #quotas: Quotas;
  #isInForce: boolean;

  /** `maxKeys`: not used with `previous`. Throws a RangeError if the runtime does not know the time zone. */
  constructor(calendar: Calendar, maxKeys: number, clock: Clock, previous: CalendarCounters | null = null) {
    const isSame = previous !== null && isSameCalendar(calendar, previous.#calendar);
    this.#nextBorder = isSame ? previous.#nextBorder : createCalendar(calendar.per, calendar.timezone);
    this.#calendar = calendar;
    this.#clock = clock;
    this.#isInForce = previous === null;
    this.#quotas = previous === null ? emptyQuotas(calendar, this.#nextBorder, maxKeys) : previous.#quotas;
  }

  get remaining(): number {
    return this.#quotas.table.remaining;
  }

  ask(key: string, limit: number, units: number, nowMs: number): boolean {
    this.resetMs = this.unspentResetMs(nowMs);
    return this.#quotas.table.ask(key, limit, units, windowPeriods, this.#quotas.period);
  }

  take(key: string, limit: number, units: number, nowMs: number): boolean {
    this.resetMs = this.unspentResetMs(nowMs);
    return this.#quotas.table.take(key, limit, units, windowPeriods, this.#quotas.period);
  }

  charge(): number {
    return this.#quotas.table.charge();
  }

  peek(key: string, limit: number, nowMs: number): void {
    this.resetMs = this.unspentResetMs(nowMs);
    this.#quotas.table.peek(key, limit, windowPeriods, this.#quotas.period);
  }

  giveBack(key: string, limit: number, units: number, period: number): void {
    this.#quotas.table.giveBack(key, limit, units, period);
  }

  unspentResetMs(nowMs: number): number {
    return nowMs + this.#untilEndMs();
  }

  stats(): TableStats {
    return this.#quotas.table.stats();
  }

  /** Reads the wall clock, begins the next period if it is time to, and returns how long the period still lasts. */
  #untilEndMs(): number {
    const quotas = this.#quotas;
    const wallMs = this.#clock.wallMs();
    if (wallMs >= quotas.endWallMs) {
      quotas.period += 1;
      quotas.endWallMs = quotas.nextBorder(wallMs);
    } else if (quotas.endWallMs - wallMs > 2 * longestMs[quotas.calendar.per]) {
      quotas.endWallMs = quotas.nextBorder(wallMs);
    }
    if (!this.#isInForce) this.#comeIntoForce(wallMs);
    return quotas.endWallMs - wallMs;
  }

  /** With the first request after a reload, because a limiter that is never used must change nothing. */
  #comeIntoForce(wallMs: number): void {
    const quotas = this.#quotas;
    this.#isInForce = true;
    if (isSameCalendar(this.#calendar, quotas.calendar)) return;
    quotas.calendar = this.#calendar;
    quotas.nextBorder = this.#nextBorder;
    quotas.endWallMs = quotas.nextBorder(wallMs);
  }
}

function isSameCalendar(a: Calendar, b: Calendar): boolean {
  return a.per === b.per && a.timezone === b.timezone;
}

function emptyQuotas(calendar: Calendar, nextBorder: NextBorder, maxKeys: number): Quotas {
  const table = new WindowTable(maxKeys, () => new PeriodCount());
  return { table, calendar, nextBorder, period: 0, endWallMs: Number.NEGATIVE_INFINITY };
}
