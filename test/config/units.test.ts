import fc from "fast-check";
import { expect, test } from "vitest";
import {
  durationPattern,
  formatDuration,
  formatSize,
  parseDuration,
  parseSize,
  sizePattern,
} from "../../src/config/units.ts";

test("a duration survives being written and read", () => {
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 31 - 1 }), fc.constantFrom(1, 1000, 60_000, 3_600_000), (quantity, unit) => {
      const ms = quantity * unit;
      expect(parseDuration(formatDuration(ms))).toBe(ms);
    }),
  );
});

test("a size survives being written and read", () => {
  fc.assert(
    fc.property(fc.nat({ max: 8191 }), fc.nat({ max: 4 }), (quantity, power) => {
      expect(parseSize(formatSize(quantity * 1024 ** power))).toBe(quantity * 1024 ** power);
    }),
  );
});

test("whatever is read is what the pattern of the JSON Schema matches", () => {
  const unit = fc.constantFrom("ms", "s", "m", "h", "d", "B", "kB", "KiB", "MB", "MiB", "sec", "", " s", "S");
  const text = fc.oneof(
    fc.string(),
    fc.tuple(fc.nat({ max: 99_999_999 }), unit).map(([quantity, name]) => `${quantity}${name}`),
  );
  fc.assert(
    fc.property(text, (candidate) => {
      if (candidate !== "0")
        expect(parseDuration(candidate) !== undefined).toBe(new RegExp(durationPattern).test(candidate));
      expect(parseSize(candidate) !== undefined).toBe(new RegExp(sizePattern).test(candidate));
    }),
  );
});

test.each([
  ["500ms", 500],
  ["60s", 60_000],
  ["2m", 120_000],
  ["1h", 3_600_000],
  ["1d", 86_400_000],
  ["0", 0],
  ["0s", 0],
])("%s is %i ms", (text, ms) => {
  expect(parseDuration(text)).toBe(ms);
});

test.each(["", "60", "s", "1.5s", "-1s", "1h30m", "60 s", "60S", "1w", "٣s", "60s\n", "9999999999999s"])(
  "%j is no duration",
  (text) => {
    expect(parseDuration(text)).toBeUndefined();
  },
);

test.each([
  ["10MiB", 10_485_760],
  ["64KiB", 65_536],
  ["1GiB", 1_073_741_824],
  ["10MB", 10_000_000],
  ["1kB", 1000],
  ["1KB", 1000],
  ["512B", 512],
])("%s is %i bytes", (text, bytes) => {
  expect(parseSize(text)).toBe(bytes);
});

test.each(["", "10", "MiB", "1.5MiB", "10 MiB", "10mib", "10M", "-1B", "99999TiB"])("%j is no size", (text) => {
  expect(parseSize(text)).toBeUndefined();
});

test("the shortest exact spelling is chosen", () => {
  expect([0, 1, 1500, 90_000, 120_000, 86_400_000].map(formatDuration)).toEqual([
    "0ms",
    "1ms",
    "1500ms",
    "90s",
    "2m",
    "1d",
  ]);
  expect([0, 1000, 1024, 10_485_760].map(formatSize)).toEqual(["0B", "1000B", "1KiB", "10MiB"]);
});
