// When a period of the calendar ends, by the clock of each shard.
import { expect, test } from "vitest";
import { CalendarPeriods } from "../../../src/limits/shared/calendar-periods.ts";

const minute = 60_000;
/** The beginning of a minute. */
const t = 1_800_000_000_000;

function periods(): CalendarPeriods {
  return new CalendarPeriods({ kind: "calendar", per: "minute", timezone: "UTC" }, minute);
}

test("a period ends at the next border, which belongs to the next period", () => {
  const minutes = periods();
  expect(minutes.endMs(0, t + 1)).toBe(t + minute);
  expect(minutes.endMs(0, t + minute - 1)).toBe(t + minute);
  expect(minutes.endMs(0, t + minute)).toBe(t + 2 * minute);
});

test("a clock that is set forward ends no period of another shard", () => {
  const minutes = periods();
  minutes.endMs(0, t);
  expect(minutes.endMs(1, t + 10 * minute)).toBe(t + 11 * minute);
  expect(minutes.endMs(0, t + 1)).toBe(t + minute);
});

test("a clock that goes back begins no period again", () => {
  const minutes = periods();
  minutes.endMs(0, t);
  expect(minutes.endMs(0, t - 30_000)).toBe(t + minute);
});

test("a clock that was far ahead does not end the periods for as long", () => {
  const minutes = periods();
  minutes.endMs(0, t + 1_000 * minute);
  expect(minutes.endMs(0, t)).toBe(t + minute);
});

test("a period that a shard says is over ends once, however often it is said", () => {
  const minutes = periods();
  const endMs = minutes.endMs(0, t);
  minutes.over(0, endMs);
  minutes.over(0, endMs);
  minutes.over(1, endMs);
  expect(minutes.endMs(0, t + 1)).toBe(t + 2 * minute);
  expect(minutes.endMs(1, t + 1)).toBe(t + minute);
});
