// When a period of the calendar ends, by the clock of each shard.
import { expect, test } from "vitest";
import { noPeriod, type PeriodEnd } from "../../../src/limits/calendar.ts";
import { CalendarPeriods, type ShardPeriods } from "../../../src/limits/store/counter-rules.ts";

const minute = 60_000;
/** The beginning of a minute. */
const t = 1_800_000_000_000;

function periods(byShard: ShardPeriods = new Map(), ofTable: PeriodEnd = noPeriod, per: "minute" | "hour" = "minute") {
  const rate = { kind: "calendar", per, timezone: "UTC" } as const;
  return new CalendarPeriods(rate, byShard, ofTable, () => t + 10 * minute);
}

test("a period ends at the next border, which belongs to the next period", () => {
  const minutes = periods();
  expect(minutes.endMs(0, t + 1, 1)).toBe(t + minute);
  expect(minutes.endMs(0, t + minute - 1, minute - 1)).toBe(t + minute);
  expect(minutes.endMs(0, t + minute, minute)).toBe(t + 2 * minute);
});

test("a clock that is set forward ends no period of another shard", () => {
  const minutes = periods();
  minutes.endMs(0, t, 0);
  expect(minutes.endMs(1, t + 10 * minute, 0)).toBe(t + 11 * minute);
  expect(minutes.endMs(0, t + 1, 1)).toBe(t + minute);
});

test("a clock that goes back begins no period again, however far, and also after a reload", () => {
  const byShard: ShardPeriods = new Map();
  periods(byShard).endMs(0, t, 0);
  for (const backMs of [30_000, 3 * minute, 1_000 * minute]) {
    const minutes = periods(byShard);
    expect(minutes.endMs(0, t - backMs, 0)).toBe(t + minute);
    expect(minutes.untilResetMs(0, t - backMs, 0)).toBe(minute + Math.min(minute, backMs));
  }
  expect(periods(byShard).endMs(0, t + 1, 1)).toBe(t + minute);
});

test("a clock that was far ahead delays no period by more than another one", () => {
  const minutes = periods();
  minutes.endMs(0, t + 1_000 * minute, 0);
  expect(minutes.endMs(0, t, 0)).toBe(t + 1_001 * minute);
  expect(minutes.untilResetMs(0, t, 0)).toBe(2 * minute);
  expect(minutes.endMs(0, t + 2 * minute - 1, 2 * minute - 1)).toBe(t + 1_001 * minute);
  expect(minutes.endMs(0, t + 2 * minute, 2 * minute)).toBe(t + 1_003 * minute);
});

test("a period that a shard says is over ends once, however often it is said", () => {
  const minutes = periods();
  const endMs = minutes.endMs(0, t, 0);
  minutes.over(0, endMs, minute);
  minutes.over(0, endMs, minute);
  minutes.over(1, endMs, minute);
  expect(minutes.endMs(0, t + 1, minute)).toBe(t + 2 * minute);
  expect(minutes.endMs(1, t + 1, minute)).toBe(t + minute);
});

test("a thread begins with the period of the table, and a reload with another calendar with that of today", () => {
  const byShard: ShardPeriods = new Map();
  const ofTable = { endMs: t + minute, dueMs: 40_000, lastMs: 100_000 };
  expect(periods(byShard, ofTable).endMs(0, t - 1_000 * minute, 1_000)).toBe(t + minute);
  expect(periods(byShard, ofTable, "hour").endMs(0, t + 1, 20_000)).toBe(t + 60 * minute);
  // That of another calendar, before the table has been asked.
  const ofMonth = { endMs: t + 1_000 * minute, dueMs: 1_000 * minute, lastMs: 2_000 * minute };
  expect(periods(new Map(), ofMonth).endMs(0, t + 1, 1)).toBe(t + minute);
});

test("as long as a shard's clock is not known, another one says when its period ends, and is forgotten then", () => {
  const minutes = periods();
  expect(minutes.endMs(0, null, 0)).toBe(t + 11 * minute);
  expect(minutes.endMs(0, t, 0)).toBe(t + minute);
});

test("while a shard's clock is not known any more, it is supposed to run on", () => {
  const minutes = periods();
  minutes.endMs(0, t, 0);
  expect(minutes.endMs(0, null, minute - 1)).toBe(t + minute);
  expect(minutes.endMs(0, null, minute)).toBe(t + 2 * minute);
});
