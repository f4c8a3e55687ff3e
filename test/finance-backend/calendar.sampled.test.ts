import { expect, test } from "vitest";
import { formatDay, formatTimestamp, parseDay, parseTimestamp } from "../../src/finance-backend/calendar.ts";
import { inFullOr } from "../support/runs.ts";

const dayMs = 86_400_000;

test("days of all the years 0001 to 9999 agree with the engine's own calendar, there and back", () => {
  const first = Date.UTC(1970, 0, 1) / dayMs - 719_162;
  const step = inFullOr(13, 89);
  for (let day = first; day <= 2_932_896; day += step) {
    const text = new Date(day * dayMs).toISOString().slice(0, 10);
    if (formatDay(day) !== text || parseDay(text) !== day) {
      expect.fail(`${text}: ${formatDay(day)}, ${parseDay(text)} for ${day}`);
    }
  }
  expect(formatDay(first)).toBe("0001-01-01");
  expect(formatDay(2_932_896)).toBe("9999-12-31");
});

test.each([
  ["2024-02-29", true],
  ["2000-02-29", true],
  ["2023-02-29", false],
  ["1900-02-29", false],
  ["2025-04-31", false],
  ["2025-12-00", false],
  ["2025-13-01", false],
  ["0000-12-31", false],
  [" 2025-01-01", false],
  ["2025-01-01\n", false],
  ["２０２５-01-01", false],
])("%s is a calendar date: %s", (text, real) => expect(parseDay(text) !== null).toBe(real));

test.each([
  ["2025-03-01", "2025-03-01T00:00:00.000Z"],
  ["2025-03-01T10:20", "2025-03-01T10:20:00.000Z"],
  ["2025-03-01T10:20:30", "2025-03-01T10:20:30.000Z"],
  ["2025-03-01t10:20:30.5z", "2025-03-01T10:20:30.500Z"],
  ["2025-03-01T10:20:30.123999Z", "2025-03-01T10:20:30.123Z"],
  ["2025-03-01T00:30:00+01:00", "2025-02-28T23:30:00.000Z"],
  ["2024-12-31T20:00:00-05:30", "2025-01-01T01:30:00.000Z"],
  ["9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59.999Z"],
  ["0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00.000Z"],
  ["2025-03-01T24:00:00Z", null],
  ["2025-03-01T10:60:00Z", null],
  ["2025-03-01T10:20:60Z", null],
  ["2025-03-01T10:20:30+24:00", null],
  ["2025-03-01T10:20:30+0100", null],
  ["2025-03-01T10Z", null],
  ["2025-02-30T10:20:30Z", null],
  ["2025-03-01 10:20:30Z", null],
])("the instant %s is %s", (text, canonical) => expect(parseTimestamp(text)).toBe(canonical));

test("a formatted instant is read back as itself", () => {
  for (const ms of [0, 1, -1, 1_735_689_599_999, 951_782_400_000]) {
    expect(formatTimestamp(ms)).toBe(new Date(ms).toISOString());
    expect(parseTimestamp(formatTimestamp(ms))).toBe(formatTimestamp(ms));
  }
});
