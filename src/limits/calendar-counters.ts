// The counters of policies by periods of the calendar.
import type { Clock } from "../core/clock.ts";
import { periodLengths, type Rate } from "../core/policy.ts";
import { type ClockReading, createCalendar, latestWallMs, periodEndAt, untilEndMs, untilResetMs } from "./calendar.ts";
import { type Ask, LocalCounters, type OwnCount, type Reading } from "./counters.ts";
import type { CalendarPeriod, CounterTable } from "./table/counter-table.ts";
import type { CalendarInForce, SlotRules, Span } from "./table/key-log.ts";

/** The clock of a store; that of this machine for as long as no server of the store has said what its clock shows. */
export interface PeriodClock extends Clock {
  readonly isGuess?: () => boolean;
}

type Calendar = Pick<Extract<Rate, { kind: "calendar" }>, "per" | "timezone">;

/**
 * Quotas by periods of the calendar. The wall clock says when a period is over; then the number of the period rises, and all
 * keys start again at once. A clock that goes back refills nothing: see calendar.ts. The calendar is the one in force.
 */
export class CalendarCounters extends LocalCounters {
  readonly #period: CalendarPeriod;
  readonly #clock: PeriodClock;
  readonly #reading: Reading = { now: 0, window: 1, resetMs: 0 };

  /** Throws a RangeError if the runtime does not know the time zone. */
  constructor(table: CounterTable, slot: number, rules: SlotRules, { per, timezone }: Calendar, clock: PeriodClock) {
    super(table, slot, { ...rules, calendar: { per, timezone, nextBorder: createCalendar(per, timezone) } });
    this.#period = table.periodOf(slot);
    this.#clock = clock;
  }

  override comeIntoForce(nowMs: number, continues: boolean): void {
    const { calendar } = this.rules;
    const before = continues ? this.table.rules.of(this.slot)?.calendar : undefined;
    // A period that is over by the calendar before is over.
    if (before !== undefined) this.readingAt(nowMs);
    super.comeIntoForce(nowMs, continues);
    if (before === undefined || (before.per === calendar?.per && before.timezone === calendar.timezone)) return;
    this.#setEnd({ wallMs: this.#clock.wallMsAt(nowMs), nowMs }, this.#period.endMs, false);
  }

  /** Reads the wall clock, and begins the next period if it is time to. */
  readingAt(nowMs: number): Reading {
    const period = this.#period;
    const wallMs = this.#clock.wallMsAt(nowMs);
    const seenEndMs = period.endMs;
    if (untilEndMs(period, wallMs, nowMs) <= 0) this.#setEnd({ wallMs, nowMs }, seenEndMs, true);
    else if (period.isGuess && !this.#isGuess) this.#setEnd({ wallMs, nowMs }, seenEndMs, false);
    this.#reading.now = period.number;
    this.#reading.resetMs = nowMs + untilResetMs(period, wallMs, nowMs);
    return this.#reading;
  }

  protected override resetOf(ask: Ask, { resetMs }: Reading): number {
    if (!ask.fits) this.table.markExhausted(ask.cursor, true);
    return resetMs;
  }

  protected override ownOf(units: number): OwnCount {
    return { units, ageMs: 0, periodEndMs: this.#period.endMs };
  }

  /** Begins no period: the clock of a thread that decides nothing may not be the one that says when. */
  protected override forgivenSpan(): Span {
    return { now: this.#period.number, window: 1 };
  }

  protected override get periodEndMs(): number {
    return this.#period.endMs;
  }

  get #isGuess(): boolean {
    return this.#clock.isGuess?.() === true;
  }

  #setEnd(reading: ClockReading, seenEndMs: number, begins: boolean): void {
    const { per, nextBorder } = (this.table.rules.of(this.slot)?.calendar ?? this.rules.calendar) as CalendarInForce;
    const isGuess = this.#isGuess;
    // A clock that is known now has not gone back.
    const latestMs = this.#period.isGuess && !isGuess ? reading.wallMs : latestWallMs(this.#period, reading);
    this.#period.setEnd(
      periodEndAt(nextBorder, periodLengths[per].longestMs, latestMs, reading),
      seenEndMs,
      begins,
      isGuess,
    );
  }
}
