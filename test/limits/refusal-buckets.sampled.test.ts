import fc from "fast-check";
import { expect, test } from "vitest";
import { RefusalBuckets } from "../../src/limits/refusal-buckets.ts";
import { runs, scaled } from "../support/runs.ts";

test("never passes more than the burst and what time has earned, over any stretch of time", () => {
  const rates = fc.record({ perSecond: fc.integer({ min: 1, max: 100 }), burst: fc.integer({ min: 1, max: 20 }) });
  const gaps = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 300 })), { maxLength: 150, size: "max" });
  let refused = 0;
  fc.assert(
    fc.property(rates, gaps, ({ perSecond, burst }, gapsMs) => {
      const buckets = new RefusalBuckets({ perSecond, burst });
      const passedAtMs: number[] = [];
      let nowMs = 0;
      for (const gapMs of gapsMs) {
        nowMs += gapMs;
        if (buckets.isSpent("a", nowMs)) {
          refused += 1;
          continue;
        }
        buckets.spend("a", nowMs);
        passedAtMs.push(nowMs);
        for (const [i, fromMs] of passedAtMs.entries()) {
          const earned = ((nowMs - fromMs) * perSecond) / 1000;
          if (passedAtMs.length - i > burst + earned + 1e-6) throw new Error(`more than ${burst} + ${earned}`);
        }
      }
    }),
    runs(500),
  );
  expect(refused).toBeGreaterThan(scaled(1000));
});

test("a burst passes, and one more for each interval after it", () => {
  const buckets = new RefusalBuckets({ perSecond: 50, burst: 500 });
  const passes = (nowMs: number): boolean => {
    if (buckets.isSpent("a", nowMs)) return false;
    buckets.spend("a", nowMs);
    return true;
  };
  for (let i = 0; i < 500; i += 1) expect(passes(1000)).toBe(true);
  expect(passes(1000)).toBe(false);
  expect(passes(1019)).toBe(false);
  expect(passes(1020)).toBe(true);
  expect(passes(1020)).toBe(false);
  for (let i = 0; i < 500; i += 1) expect(passes(60_000)).toBe(true);
  expect(passes(60_000)).toBe(false);
});

test("a client that was never refused has no bucket, and there are at most 10,000 of them", () => {
  const buckets = new RefusalBuckets({ perSecond: 1, burst: 1 });
  for (let i = 0; i < 100; i += 1) expect(buckets.isSpent(`client ${i}`, 0)).toBe(false);
  expect(buckets.size).toBe(0);
  for (let i = 0; i < 20_000; i += 1) buckets.spend(`client ${i}`, 0);
  expect(buckets.size).toBe(10_000);
  expect(buckets.isSpent("client 19999", 0)).toBe(true);
  // The one that was refused longest ago was forgotten.
  expect(buckets.isSpent("client 0", 0)).toBe(false);
});

test.each([
  ["a larger burst", 400, { perSecond: 10, burst: 1000 }, 100],
  ["a smaller burst", 400, { perSecond: 10, burst: 50 }, 50],
  ["a smaller burst than is left", 490, { perSecond: 10, burst: 50 }, 10],
])("%s after a reload leaves what was left, and no more than it allows", (_, spent, rate, left) => {
  const before = new RefusalBuckets({ perSecond: 50, burst: 500 });
  for (let i = 0; i < spent; i += 1) before.spend("a", 0);
  const buckets = before.withRate(rate, 0);
  let passed = 0;
  for (; !buckets.isSpent("a", 0) && passed < 2000; passed += 1) buckets.spend("a", 0);
  expect(passed).toBe(left);
  expect([buckets.isSpent("a", 99), buckets.isSpent("a", 100)]).toEqual([true, false]);
});
