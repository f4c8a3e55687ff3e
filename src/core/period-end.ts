// Computes when the current period of the calendar ends: when the wall clock reaches its border. Setting that clock back
// never brings the end nearer. It delays the end, by the longest length of a period at most; after that, the calendar goes
// on by the monotonic clock, so that clients are not locked out after a wall clock was far ahead.
import type { NextBorder } from "./calendar.ts";

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
