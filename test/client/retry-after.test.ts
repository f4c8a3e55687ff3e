// Bounds of the waits, for any input.
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseHttpDate } from "../../src/client/http-date.ts";
import { BACKOFF_CAP_MS, backoffMs, retryAfterMs } from "../../src/client/retry-after.ts";

const unit = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

test("0 ≤ back-off ≤ min(30 s, base · 2^retries), however often", () => {
  fc.assert(
    fc.property(
      fc.nat({ max: 5_000 }),
      fc.double({ min: 1, max: 1e12, noNaN: true }),
      unit,
      (retries, baseMs, chance) => {
        const waitMs = backoffMs(retries, baseMs, () => chance);
        expect(waitMs).toBeGreaterThanOrEqual(0);
        expect(waitMs).toBeLessThanOrEqual(Math.min(30_000, baseMs * 2 ** retries));
      },
    ),
  );
});

test("the jitter is full: chance alone decides between nothing and the bound", () => {
  fc.assert(
    fc.property(fc.nat({ max: 20 }), unit, (retries, chance) => {
      expect(backoffMs(retries, 100, () => chance)).toBe(chance * Math.min(BACKOFF_CAP_MS, 100 * 2 ** retries));
    }),
  );
});

test("any Retry-After gives a wait above 0 or none, and never throws", () => {
  const text = fc.oneof(
    fc.string({ unit: "grapheme-ascii" }),
    fc.bigInt().map(String),
    fc.constantFrom("1.5", "1e3", "0x10", "+1", "2, 3"),
  );
  fc.assert(
    fc.property(text, (value) => {
      const waitMs = retryAfterMs(new Headers({ "retry-after": value }), () => 0);
      if (/^\s*0*[1-9]\d*\s*$/.test(value)) expect(waitMs).toBe(Number(value) * 1000);
      else expect(waitMs).toBeNull();
    }),
  );
});

test("a Retry-After date is kept to the second, whatever the two clocks say", () => {
  const second = fc.integer({ min: 0, max: 4_000_000_000 });
  fc.assert(
    fc.property(second, fc.integer({ min: 1, max: 100_000 }), fc.integer(), (sentS, waitS, wallMs) => {
      const headers = new Headers({ date: utc(sentS), "retry-after": utc(sentS + waitS) });
      expect(retryAfterMs(headers, () => wallMs)).toBe(waitS * 1000);
    }),
  );
});

test("reads every instant in the form that senders write", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 250_000_000_000 }), (seconds) => {
      expect(parseHttpDate(utc(seconds))).toBe(seconds * 1000);
    }),
  );
});

test.each([
  ["Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"],
  ["Thursday, 01-Jan-69 00:00:00 GMT", "2069-01-01T00:00:00Z"],
  ["Thursday, 01-Jan-70 00:00:00 GMT", "1970-01-01T00:00:00Z"],
  ["Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37Z"],
  ["Wed Nov 16 08:49:37 1994", "1994-11-16T08:49:37Z"],
  ["Sat, 31 Dec 2016 23:59:60 GMT", "2017-01-01T00:00:00Z"],
  ["Thu, 29 Feb 2024 00:00:00 GMT", "2024-02-29T00:00:00Z"],
])("%s is %s", (text, iso) => {
  expect(parseHttpDate(text)).toBe(Date.parse(iso));
});

test.each([
  "",
  "tomorrow",
  "2026-01-01T00:00:00Z",
  "Sun, 06 Nov 1994 08:49:37",
  "Sun, 06 Nov 1994 08:49:37 +0000",
  "Sun, 06 Foo 1994 08:49:37 GMT",
  "Sun, 00 Nov 1994 08:49:37 GMT",
  "Sun, 29 Feb 2023 08:49:37 GMT",
  "Sun, 06 Nov 1994 24:00:00 GMT",
  "Sun, 06 Nov 1994 08:60:00 GMT",
  "Sun, 06 Nov 1994 08:49:61 GMT",
])("%j is no HTTP date", (text) => {
  expect(parseHttpDate(text)).toBeNull();
});

function utc(seconds: number): string {
  return new Date(seconds * 1000).toUTCString();
}
