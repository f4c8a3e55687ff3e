// Where periods end. Each row: from a UTC instant in a zone, the ends of the next periods in UTC, as the zone database
// has them.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { calendarPeriods, type PeriodName, periodLengths } from "../../src/core/policy.ts";
import { createCalendar, periodAt } from "../../src/limits/calendar.ts";
import { runs } from "../support/runs.ts";

type Row = readonly [name: string, per: PeriodName, timezone: string, from: string, ends: readonly string[]];

const rows: readonly Row[] = [
  ["a minute", "minute", "UTC", "2026-03-01T12:00:59.999Z", ["2026-03-01T12:01:00Z", "2026-03-01T12:02:00Z"]],
  ["at a border, the next one", "minute", "UTC", "2026-03-01T12:01:00Z", ["2026-03-01T12:02:00Z"]],
  ["an hour of UTC", "hour", "UTC", "2026-12-31T23:59:59Z", ["2027-01-01T00:00:00Z", "2027-01-01T01:00:00Z"]],
  ["a day of UTC", "day", "UTC", "2024-02-28T00:00:00Z", ["2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"]],
  ["a month of UTC", "month", "UTC", "2024-12-15T08:00:00Z", ["2025-01-01T00:00:00Z", "2025-02-01T00:00:00Z"]],
  ["an hour of India, at half past in UTC", "hour", "Asia/Kolkata", "2026-05-01T10:10:00Z", ["2026-05-01T10:30:00Z"]],
  ["an hour of Nepal", "hour", "Asia/Kathmandu", "2026-05-01T10:10:00Z", ["2026-05-01T10:15:00Z"]],
  ["a day of Nepal", "day", "Asia/Kathmandu", "2026-05-01T10:10:00Z", ["2026-05-01T18:15:00Z"]],
  [
    "a day of 23 hours",
    "day",
    "Europe/Berlin",
    "2026-03-28T12:00:00Z",
    ["2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z"],
  ],
  [
    "a day of 25 hours",
    "day",
    "America/New_York",
    "2026-10-31T12:00:00Z",
    ["2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", "2026-11-03T05:00:00Z"],
  ],
  [
    "months with another offset at their end",
    "month",
    "Europe/Berlin",
    "2026-03-15T00:00:00Z",
    ["2026-03-31T22:00:00Z", "2026-04-30T22:00:00Z"],
  ],
  [
    "the hour that is left out ends the one before it, which is as long as any",
    "hour",
    "Europe/Berlin",
    "2026-03-29T00:30:00Z",
    ["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"],
  ],
  [
    "the hour that comes twice is two hours",
    "hour",
    "Europe/Berlin",
    "2026-10-24T23:30:00Z",
    ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"],
  ],
  [
    "half an hour is left out: the next hour is half as long",
    "hour",
    "Australia/Lord_Howe",
    "2026-10-03T15:00:00Z",
    ["2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z", "2026-10-03T17:00:00Z"],
  ],
  [
    "half an hour comes twice: the second time is a period of its own",
    "hour",
    "Australia/Lord_Howe",
    "2026-04-04T14:30:00Z",
    ["2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z", "2026-04-04T16:30:00Z"],
  ],
  [
    "an offset that changes within an hour ends it",
    "hour",
    "America/Caracas",
    "2016-05-01T06:40:00Z",
    ["2016-05-01T07:00:00Z", "2016-05-01T08:00:00Z"],
  ],
  [
    "midnight is left out: the day begins at one",
    "day",
    "Asia/Beirut",
    "2024-03-30T12:00:00Z",
    ["2024-03-30T22:00:00Z", "2024-03-31T21:00:00Z"],
  ],
  [
    "midnight is left out on the first of a month",
    "month",
    "America/Asuncion",
    "2017-09-30T12:00:00Z",
    ["2017-10-01T04:00:00Z", "2017-11-01T03:00:00Z"],
  ],
  [
    "at midnight the clocks go back to eleven: the day goes on",
    "day",
    "America/Sao_Paulo",
    "2018-02-17T12:00:00Z",
    ["2018-02-18T03:00:00Z", "2018-02-19T03:00:00Z"],
  ],
  [
    "midnight comes twice: the first one counts",
    "day",
    "America/Havana",
    "2025-11-01T12:00:00Z",
    ["2025-11-02T04:00:00Z", "2025-11-03T05:00:00Z"],
  ],
  [
    "a whole day is left out",
    "day",
    "Pacific/Apia",
    "2011-12-29T12:00:00Z",
    ["2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"],
  ],
  [
    "the zone furthest ahead",
    "day",
    "Pacific/Kiritimati",
    "2026-01-01T00:00:00Z",
    ["2026-01-01T10:00:00Z", "2026-01-02T10:00:00Z"],
  ],
];

describe("the next border", () => {
  test.each(rows)("%s (%s, %s)", (_name, per, timezone, from, ends) => {
    const nextBorder = createCalendar(per, timezone);
    let atMs = Date.parse(from);
    for (const end of ends) {
      const justBefore = Date.parse(end) - 1;
      expect(new Date(nextBorder(atMs)).toISOString()).toBe(new Date(end).toISOString());
      expect(nextBorder(justBefore + 0.25)).toBe(justBefore + 1);
      atMs = Date.parse(end);
    }
  });

  test("each period has a row", () => {
    expect(new Set(rows.map(([, per]) => per))).toEqual(new Set(calendarPeriods));
  });

  test("an unknown time zone is an error", () => {
    expect(() => createCalendar("day", "Europe/Atlantis")).toThrow(RangeError);
  });
});

describe("the period at an instant", () => {
  test.each(rows)("%s (%s, %s)", (_name, per, timezone, from, [first = "", second]) => {
    const endMs = Date.parse(first);
    expect(periodAt(per, timezone, Date.parse(from)).endMs).toBe(endMs);
    expect(periodAt(per, timezone, endMs - 1).endMs).toBe(endMs);
    expect(periodAt(per, timezone, endMs).startMs).toBe(endMs);
    if (second === undefined) return;
    for (const atMs of [endMs, Date.parse(second) - 1]) {
      expect(periodAt(per, timezone, atMs)).toEqual({ startMs: endMs, endMs: Date.parse(second) });
    }
  });
});

test.each(calendarPeriods)("a %s is as short and as long as its table says", (per) => {
  const lengthsIn = (timezone: string): number[] => {
    const nextBorder = createCalendar(per, timezone);
    const borders = [nextBorder(Date.parse("2026-09-30T12:00:00Z"))];
    while (borders.length < 50) borders.push(nextBorder(borders.at(-1) ?? Number.NaN));
    return borders.slice(1).map((border, i) => border - (borders[i] ?? Number.NaN));
  };
  const { shortestMs, longestMs, isFixed } = periodLengths[per];
  const inUtc = lengthsIn("UTC");
  expect(Math.min(...inUtc)).toBe(shortestMs);
  expect(new Set(inUtc).size === 1).toBe(isFixed);
  // In October its clocks go back by an hour.
  expect(Math.max(...lengthsIn("Europe/Berlin"))).toBe(longestMs);
});

test("is the first instant at which the local date differs, for any instant and zone", () => {
  const zones = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "Africa/Cairo"];
  const formats = new Map(zones.map((timeZone) => [timeZone, new Intl.DateTimeFormat("en-CA", { timeZone })]));
  const calendars = new Map(zones.map((timeZone) => [timeZone, createCalendar("day", timeZone)]));
  const times = fc.double({ min: Date.UTC(2020, 0), max: Date.UTC(2030, 0), noNaN: true });
  fc.assert(
    fc.property(fc.constantFrom(...zones), times, (zone, atMs) => {
      const dateOf = (ms: number): string => formats.get(zone)?.format(Math.floor(ms)) ?? "";
      const borderMs = calendars.get(zone)?.(atMs) ?? Number.NaN;
      expect(borderMs).toBeGreaterThan(atMs);
      expect(borderMs - atMs).toBeLessThanOrEqual(25 * 3_600_000);
      expect(dateOf(borderMs - 1)).toBe(dateOf(atMs));
      expect(dateOf(borderMs) > dateOf(atMs)).toBe(true);
    }),
    runs(500),
  );
});
