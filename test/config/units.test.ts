import fc from "fast-check";
import { expect, test } from "vitest";
import { durationPattern, parseDuration, parseSize, sizePattern } from "../../src/config/leaves.ts";

test("a duration is its quantity times its unit, in milliseconds", () => {
  const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 20 }), fc.constantFrom(...Object.entries(units)), (quantity, [unit, ms]) => {
      expect(parseDuration(`${quantity}${unit}`)).toBe(quantity * ms);
    }),
  );
});

test("a size is its quantity times its unit, in bytes", () => {
  fc.assert(
    fc.property(fc.nat({ max: 8191 }), fc.nat({ max: 4 }), (quantity, power) => {
      const unit = ["B", "KiB", "MiB", "GiB", "TiB"][power];
      expect(parseSize(`${quantity}${unit}`)).toBe(quantity * 1024 ** power);
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
