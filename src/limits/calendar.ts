// Where the periods of the calendar end in a time zone, by the zone rules of the runtime. Days and months end when the
// local date first reaches the next one: a day may have 23 or 25 hours, and where a change of the clocks leaves midnight
// out, the day begins at that change. Minutes and hours also end where the offset of the zone changes, so that the hour
// that comes twice is two hours. Slow; computed once for each border.
import { type NextDate, type PeriodName, periodLengths } from "../core/policy.ts";

/** Returns the first instant after `wallMs` at which another period begins, in Unix milliseconds. */
export type NextBorder = (wallMs: number) => number;

/** Throws a RangeError if the runtime does not know the time zone. */
export function createCalendar(per: PeriodName, timezone: string): NextBorder {
  const localMs = createLocalTime(timezone);
  const { shortestMs, nextDate } = periodLengths[per];
  return (wallMs) => {
    // All borders are whole milliseconds.
    const atMs = Math.floor(wallMs);
    return nextDate === null ? nextMultiple(localMs, atMs, shortestMs) : firstOfDate(localMs, atMs, nextDate);
  };
}

/** From its first instant to that of the next one, in Unix milliseconds. */
export interface Period {
  readonly startMs: number;
  readonly endMs: number;
}

/** Returns the period of the calendar at an instant. Throws as `createCalendar` does. */
export function periodAt(per: PeriodName, timezone: string, wallMs: number): Period {
  const nextBorder = createCalendar(per, timezone);
  const endMs = nextBorder(wallMs);
  let startMs = endMs - periodLengths[per].longestMs;
  for (let border = nextBorder(startMs); border < endMs; border = nextBorder(border)) startMs = border;
  return { startMs, endMs };
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

/** Returns the first instant at which the local date is the next one that begins a period. */
function firstOfDate(localMs: LocalTime, nowMs: number, nextDate: NextDate): number {
  const local = localMs(nowMs);
  const date = new Date(local);
  const begin = nextDate(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate());
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

// Computes when the current period of the calendar ends: when the wall clock reaches its border. Setting that clock back
// never brings the end nearer. It delays the end, by the longest length of a period at most; after that, the calendar goes
// on by the monotonic clock, so that clients are not locked out after a wall clock was far ahead.

export interface PeriodEnd {
  /** The border in Unix milliseconds, a whole second; 0 before the first period. */
  readonly endMs: number;
  /** The monotonic instant at which the wall clock reaches it, if nobody sets that clock. */
  readonly dueMs: number;
  /** The monotonic instant at which the period is over, whatever the wall clock shows. */
  readonly lastMs: number;
}

/** Both clocks at one instant. */
export interface ClockReading {
  readonly wallMs: number;
  readonly nowMs: number;
}

/** Returns how long the period still lasts; 0 or less if it is over. */
export function untilEndMs({ endMs, lastMs }: PeriodEnd, wallMs: number, nowMs: number): number {
  return Math.min(endMs - wallMs, lastMs - nowMs);
}

/**
 * Returns the wait that clients are told. It ends at a whole second of the wall clock; if the monotonic clock ends the
 * period, the wait is rounded up to one.
 */
export function untilResetMs(end: PeriodEnd, wallMs: number, nowMs: number): number {
  const leftMs = untilEndMs(end, wallMs, nowMs);
  return leftMs === end.endMs - wallMs ? leftMs : Math.ceil((wallMs + leftMs) / 1000) * 1000 - wallMs;
}

/**
 * Returns what the wall clock would show if it had not been set back since the period began. A clock that has reached the
 * border is believed, because the next period is a later one.
 */
export function latestWallMs({ endMs, dueMs }: Omit<PeriodEnd, "lastMs">, { wallMs, nowMs }: ClockReading): number {
  return wallMs >= endMs ? wallMs : Math.max(wallMs, endMs - (dueMs - nowMs));
}

/** Returns the end of the period at `latestMs`, which `latestWallMs` has returned. `longestMs`: how long one may last. */
export function periodEndAt(
  nextBorder: NextBorder,
  longestMs: number,
  latestMs: number,
  { wallMs, nowMs }: ClockReading,
): PeriodEnd {
  const endMs = nextBorder(latestMs);
  const dueMs = nowMs + (endMs - latestMs);
  // A clock that is further behind is not waited for.
  const lateMs = latestMs - wallMs <= longestMs ? longestMs : 0;
  return { endMs, dueMs, lastMs: dueMs + lateMs };
}

export const noPeriod: PeriodEnd = { endMs: 0, dueMs: 0, lastMs: 0 };
