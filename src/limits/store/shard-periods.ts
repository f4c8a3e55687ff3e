// The periods of a calendar policy by the clocks of the shards: one that is set forward must not begin a period for the
// keys of the others. No period begins again: see ../calendar.ts. A thread that does not know a shard yet begins with
// the period of the table, which other threads or a process before this one may have begun.
import type { Rate } from "../../core/policy.ts";
import {
  type ClockReading,
  createCalendar,
  latestWallMs,
  longestPeriodMs,
  type NextBorder,
  noPeriod,
  type PeriodEnd,
  periodEndAt,
  untilEndMs,
  untilResetMs,
} from "../calendar.ts";
import type { CalendarPeriod } from "../table/counter-table.ts";

/** By shard, with the calendar that they are of. Outlives reloads. */
export type ShardPeriods = Map<number, { readonly calendar: string; readonly end: PeriodEnd }>;

export class CalendarPeriods {
  readonly #calendar: string;
  readonly #nextBorder: NextBorder;
  readonly #longestMs: number;
  readonly #byShard: ShardPeriods;
  readonly #ofTable: PeriodEnd & Partial<Pick<CalendarPeriod, "isGuess">>;
  readonly #wallMs: () => number;

  /** `wallMs`: the clock of other shards, or that of this machine. Throws a RangeError for an unknown time zone. */
  constructor(
    { per, timezone }: Extract<Rate, { readonly kind: "calendar" }>,
    byShard: ShardPeriods,
    ofTable: PeriodEnd & Partial<Pick<CalendarPeriod, "isGuess">>,
    wallMs: () => number,
  ) {
    this.#calendar = `${per} ${timezone}`;
    this.#nextBorder = createCalendar(per, timezone);
    this.#longestMs = longestPeriodMs[per];
    this.#byShard = byShard;
    this.#ofTable = ofTable;
    this.#wallMs = wallMs;
  }

  /** Returns when the period ends that a shard is in. `shardMs`: its clock; null if that is not known. */
  endMs(shard: number, shardMs: number | null, nowMs: number): number {
    return this.#at(shard, shardMs, nowMs).end.endMs;
  }

  /** Returns how long that period still lasts. */
  untilResetMs(shard: number, shardMs: number | null, nowMs: number): number {
    const { end, wallMs } = this.#at(shard, shardMs, nowMs);
    return untilResetMs(end, wallMs, nowMs);
  }

  #at(shard: number, shardMs: number | null, nowMs: number): { readonly end: PeriodEnd; readonly wallMs: number } {
    const before = this.#byShard.get(shard)?.end;
    // Until a new server has answered, its clock is assumed to show what the clock of the previous server would.
    const wallMs = shardMs ?? (before === undefined ? this.#wallMs() : before.endMs - (before.dueMs - nowMs));
    const end = this.#endOf(shard, wallMs, nowMs);
    // By another clock, the shard would be in a period of its own from now on.
    if (shardMs === null && before === undefined) this.#byShard.delete(shard);
    return { end, wallMs };
  }

  /** A shard has said that the period which ends then is over. */
  over(shard: number, endMs: number, nowMs: number): void {
    const known = this.#byShard.get(shard);
    if (known?.calendar !== this.#calendar || known.end.endMs !== endMs) return;
    this.#begin(shard, known.end, { wallMs: endMs, nowMs });
  }

  #endOf(shard: number, wallMs: number, nowMs: number): PeriodEnd {
    const known = this.#byShard.get(shard);
    const before = known?.end ?? (this.#ofTable.isGuess === true ? noPeriod : this.#ofTable);
    const isOfCalendar =
      known === undefined ? before.dueMs - nowMs <= this.#longestMs : known.calendar === this.#calendar;
    if (!isOfCalendar || untilEndMs(before, wallMs, nowMs) <= 0) return this.#begin(shard, before, { wallMs, nowMs });
    return known === undefined ? this.#set(shard, before) : before;
  }

  #begin(shard: number, before: PeriodEnd, reading: ClockReading): PeriodEnd {
    const latestMs = latestWallMs(before, reading);
    return this.#set(shard, periodEndAt(this.#nextBorder, this.#longestMs, latestMs, reading));
  }

  /** That of the table changes, so it is copied. */
  #set(shard: number, { endMs, dueMs, lastMs }: PeriodEnd): PeriodEnd {
    const end = { endMs, dueMs, lastMs };
    this.#byShard.set(shard, { calendar: this.#calendar, end });
    return end;
  }
}
