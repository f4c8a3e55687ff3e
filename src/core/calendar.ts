// Where the periods of the calendar end in a time zone, by the zone rules of the runtime. Days and months end when the
// local date first reaches the next one: a day may have 23 or 25 hours, and where a change of the clocks leaves midnight
// out, the day begins at that change. Minutes and hours also end where the offset of the zone changes, so that the hour
// that comes twice is two hours. Slow; computed once for each border.
import type { CalendarPeriod } from "./policy.ts";

/** How long a period may last. */
export const longestPeriodMs: Readonly<Record<CalendarPeriod, number>> = {
  minute: 60_000,
  hour: 3_600_000,
  // With a change of the clocks.
  day: 25 * 3_600_000,
  month: (31 * 24 + 1) * 3_600_000,
};

/** Returns the first instant after `wallMs` at which another period begins, in Unix milliseconds. */
export type NextBorder = (wallMs: number) => number;

/** Throws a RangeError if the runtime does not know the time zone. */
export function createCalendar(per: CalendarPeriod, timezone: string): NextBorder {
  const localMs = createLocalTime(timezone);
  return (wallMs) => {
    // All borders are whole milliseconds.
    const atMs = Math.floor(wallMs);
    switch (per) {
      case "minute":
        return nextMultiple(localMs, atMs, 60_000);
      case "hour":
        return nextMultiple(localMs, atMs, 3_600_000);
      case "day":
      case "month":
        return nextDate(localMs, atMs, per);
    }
  };
}

/** The local date and time as the Unix milliseconds that they would be in UTC. */
type LocalTime = (atMs: number) => number;

function createLocalTime(timezone: string): LocalTime {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: timezone,
    calendar: "iso8601",
    numberingSystem: "latn",
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  return (atMs) => {
    const second = Math.floor(atMs / 1000) * 1000;
    const value = new Map(format.formatToParts(second).map(({ type, value }) => [type, Number(value)]));
    const part = (type: Intl.DateTimeFormatPartTypes): number => value.get(type) ?? Number.NaN;
    const date = Date.UTC(part("year"), part("month") - 1, part("day"), part("hour"), part("minute"), part("second"));
    return date + (atMs - second);
  };
}

function nextMultiple(localMs: LocalTime, nowMs: number, unitMs: number): number {
  const offsetMs = localMs(nowMs) - nowMs;
  const borderMs = (Math.floor((nowMs + offsetMs) / unitMs) + 1) * unitMs - offsetMs;
  const lastMs = borderMs - 1;
  if (lastMs <= nowMs || localMs(lastMs) - lastMs === offsetMs) return borderMs;
  return firstAfter(nowMs, lastMs, (atMs) => localMs(atMs) - atMs !== offsetMs);
}

/** No two local times of one instant differ by more, so a local time is never further from its instant in UTC. */
const widestOffsetMs = 26 * 3_600_000;

function nextDate(localMs: LocalTime, nowMs: number, per: "day" | "month"): number {
  const local = localMs(nowMs);
  const date = new Date(local);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  const begin = per === "day" ? Date.UTC(year, month, date.getUTCDate() + 1) : Date.UTC(year, month + 1, 1);
  const estimateMs = begin - (local - nowMs);
  const earliestMs = Math.max(nowMs, estimateMs - widestOffsetMs);
  return firstAfter(earliestMs, estimateMs + widestOffsetMs, (atMs) => localMs(atMs) >= begin);
}

/** Returns the first whole millisecond after `beforeMs` for which `isReached` is true, as it is for `reachedMs`. */
function firstAfter(beforeMs: number, reachedMs: number, isReached: (atMs: number) => boolean): number {
  let low = beforeMs;
  let high = reachedMs;
  while (low + 1 < high) {
    const middle = Math.floor((low + high) / 2);
    if (isReached(middle)) high = middle;
    else low = middle;
  }
  return high;
}
