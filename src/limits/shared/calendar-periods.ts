// The periods of a calendar policy by the clocks of the shards: one that is set forward must not begin a period for the
// keys of the others. No period begins again: see core/period-end.ts. A thread that does not know a shard yet begins with
// the period of the table, which other threads or a process before this one may have begun.
import { createCalendar, type NextBorder } from "../../core/calendar.ts";
import {
  type ClockReading,
  latestWallMs,
  noPeriod,
  type PeriodEnd,
  periodEndAt,
  untilEndMs,
  untilResetMs,
} from "../../core/period-end.ts";
import type { Policy, Rate } from "../../core/policy.ts";
import { CalendarCounters } from "../calendar-counters.ts";
import { allUnits } from "../charged-counters.ts";
import type { Counters } from "../counters.ts";
import type { CalendarPeriod } from "../table/calendar-period.ts";
import { longestCountMs } from "./policy-rules.ts";

/** By shard, with the calendar that they are of. Outlives reloads. */
export type ShardPeriods = Map<number, { readonly calendar: string; readonly end: PeriodEnd }>;

export interface CalendarPeriodsParts {
  readonly rate: Extract<Rate, { readonly kind: "calendar" }>;
  readonly longestMs: number;
  readonly byShard: ShardPeriods;
  readonly ofTable: PeriodEnd & Partial<Pick<CalendarPeriod, "isGuess">>;
  /** The clock of other shards, or that of this machine. */
  readonly wallMs: () => number;
}

export class CalendarPeriods {
  readonly #calendar: string;
  readonly #nextBorder: NextBorder;
  readonly #parts: CalendarPeriodsParts;
  /** Until the period is over that `endMs` was asked for last. */
  untilResetMs = 0;

  /** Throws a RangeError if the runtime does not know the time zone. */
  constructor(parts: CalendarPeriodsParts) {
    const { per, timezone } = parts.rate;
    this.#calendar = `${per} ${timezone}`;
    this.#nextBorder = createCalendar(per, timezone);
    this.#parts = parts;
  }

  /** Returns when the period ends that a shard is in. `shardMs`: its clock; null if that is not known. */
  endMs(shard: number, shardMs: number | null, nowMs: number): number {
    const before = this.#parts.byShard.get(shard)?.end;
    // Of a server that has not answered yet, the clock is supposed to be that of the one before.
    const wallMs = shardMs ?? (before === undefined ? this.#parts.wallMs() : before.endMs - (before.dueMs - nowMs));
    const end = this.#endOf(shard, wallMs, nowMs);
    // By another clock, the shard would be in a period of its own from now on.
    if (shardMs === null && before === undefined) this.#parts.byShard.delete(shard);
    this.untilResetMs = untilResetMs(end, wallMs, nowMs);
    return end.endMs;
  }

  /** A shard has said that the period which ends then is over. */
  over(shard: number, endMs: number, nowMs: number): void {
    const known = this.#parts.byShard.get(shard);
    if (known?.calendar !== this.#calendar || known.end.endMs !== endMs) return;
    this.#begin(shard, known.end, { wallMs: endMs, nowMs });
  }

  #endOf(shard: number, wallMs: number, nowMs: number): PeriodEnd {
    const { byShard, ofTable, longestMs } = this.#parts;
    const known = byShard.get(shard);
    const before = known?.end ?? (ofTable.isGuess === true ? noPeriod : ofTable);
    const isOfCalendar = known === undefined ? before.dueMs - nowMs <= longestMs : known.calendar === this.#calendar;
    if (!isOfCalendar || untilEndMs(before, wallMs, nowMs) <= 0) return this.#begin(shard, before, { wallMs, nowMs });
    return known === undefined ? this.#set(shard, before) : before;
  }

  #begin(shard: number, before: PeriodEnd, reading: ClockReading): PeriodEnd {
    const latestMs = latestWallMs(before, reading);
    return this.#set(shard, periodEndAt(this.#nextBorder, this.#parts.longestMs, latestMs, reading));
  }

  /** That of the table changes, so it is copied. */
  #set(shard: number, { endMs, dueMs, lastMs }: PeriodEnd): PeriodEnd {
    const end = { endMs, dueMs, lastMs };
    this.#parts.byShard.set(shard, { calendar: this.#calendar, end });
    return end;
  }
}

/** `local`: the policy's counters in the table. Null if the policy has no calendar. */
export function calendarOf(
  policy: Policy,
  local: Counters,
  byShard: ShardPeriods,
  wallMs: () => number,
): CalendarPeriods | null {
  const { rate } = policy;
  const all = allUnits(local);
  if (rate.kind !== "calendar" || !(all instanceof CalendarCounters)) return null;
  return new CalendarPeriods({ rate, longestMs: longestCountMs(policy), byShard, ofTable: all.periodEnd, wallMs });
}
