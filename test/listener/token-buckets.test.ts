// Token buckets by key, against a naive bucket for each key that is never forgotten.
import fc from "fast-check";
import { expect, test } from "vitest";
import { TokenBuckets } from "../../src/listener/connection-limiter.ts";

test("a key has its burst at once, then its rate; others have their own", () => {
  const buckets = new TokenBuckets({ burst: 3, perSecond: 2 });
  const takes = (key: string, nowMs: number, count: number) =>
    Array.from({ length: count }, () => buckets.take(key, nowMs)).filter(Boolean).length;
  expect([takes("a", 0, 5), takes("b", 0, 5)]).toEqual([3, 3]);
  expect([takes("a", 499, 1), takes("a", 500, 5), takes("a", 1_500, 5)]).toEqual([0, 1, 2]);
  expect(takes("a", 100_000, 5)).toBe(3);
});

test("equals buckets that are never forgotten", () => {
  const uses = fc.array(fc.record({ key: fc.constantFrom("a", "b", "c"), gapMs: fc.nat(900) }), { maxLength: 200 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 8 }), uses, (burst, perSecond, all) => {
      const buckets = new TokenBuckets({ burst, perSecond });
      const naive = new Map<string, { left: number; sinceMs: number }>();
      let nowMs = 0;
      for (const { key, gapMs } of all) {
        nowMs += gapMs;
        const bucket = naive.get(key) ?? { left: burst, sinceMs: nowMs };
        bucket.left = Math.min(burst, bucket.left + (nowMs - bucket.sinceMs) * (perSecond / 1000));
        bucket.sinceMs = nowMs;
        const expected = bucket.left >= 1;
        if (expected) bucket.left -= 1;
        naive.set(key, bucket);
        expect(buckets.take(key, nowMs)).toBe(expected);
      }
    }),
  );
});

test("only keys of the last few seconds are remembered, and at most 100,000", () => {
  const buckets = new TokenBuckets({ burst: 10, perSecond: 10 });
  for (let i = 0; i < 300; i += 1) buckets.take(`${i}`, i);
  expect(buckets.size).toBe(300);
  buckets.take("a", 1_500);
  buckets.take("a", 2_600);
  expect(buckets.size).toBe(1);
  for (let i = 0; i < 250_000; i += 1) buckets.take(`${i}`, 2_700);
  expect(buckets.size).toBeLessThanOrEqual(100_000);
  expect(buckets.take("249999", 2_700)).toBe(true);
});
