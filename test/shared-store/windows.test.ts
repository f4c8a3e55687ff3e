// The measurement that the tests of the shared store stand on, against naive counts.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Admission, idealAdmissions, mostAtOnce, percentile, worstWindow } from "./windows.ts";

const exact = (...instants: number[]): Admission[] => instants.map((atMs) => ({ fromMs: atMs, untilMs: atMs }));

describe("the worst window", () => {
  test.each([
    ["without admissions", [], 0],
    ["what is exactly a window older counts no more", exact(0, 10), 1],
    ["what is a little younger does", exact(0.01, 10), 2],
    ["a window in the middle", exact(0, 20, 21, 29.9, 40), 3],
    ["a request that may have been charged before the window", [{ fromMs: 0, untilMs: 15 }, ...exact(15, 16)], 2],
    ["requests whose order is not known", [0, 1, 2].map((ms) => ({ fromMs: ms, untilMs: ms + 7 })), 3],
    ["one that may have been charged after the window", [...exact(0), { fromMs: 1, untilMs: 10 }], 1],
  ])("%s", (_what, admissions, count) => {
    expect(worstWindow(admissions, 10)).toBe(count);
  });

  test("equals a naive count", () => {
    const spans = fc.array(fc.tuple(fc.nat({ max: 100 }), fc.nat({ max: 8 })), { maxLength: 40 });
    fc.assert(
      fc.property(spans, fc.integer({ min: 1, max: 30 }), (pairs, windowMs) => {
        const admissions = pairs.map(([fromMs, lengthMs]) => ({ fromMs, untilMs: fromMs + lengthMs }));
        const naive = admissions.map(
          ({ fromMs }) => admissions.filter((a) => a.fromMs >= fromMs && a.untilMs < fromMs + windowMs).length,
        );
        expect(worstWindow(admissions, windowMs)).toBe(Math.max(0, ...naive));
      }),
    );
  });
});

test("the most at once: what ends when another begins is not under way with it", () => {
  const span = (fromMs: number, untilMs: number): Admission => ({ fromMs, untilMs });
  expect(mostAtOnce([])).toBe(0);
  expect(mostAtOnce([span(0, 5), span(5, 9), span(4, 6)])).toBe(2);
  expect(mostAtOnce([span(0, 9), span(1, 8), span(2, 3), span(4, 5)])).toBe(3);
});

test("the ideal is what a naive log admits", () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 200 })), fc.integer({ min: 1, max: 5 }), (attempts, limit) => {
      const admitted: number[] = [];
      for (const atMs of [...attempts].sort((a, b) => a - b)) {
        if (admitted.filter((earlierMs) => atMs - earlierMs < 20).length < limit) admitted.push(atMs);
      }
      expect(idealAdmissions(attempts, limit, 20)).toBe(admitted.length);
    }),
  );
});

test("a percentile is a value that was seen", () => {
  expect(percentile([3, 1, 2], 0.5)).toBe(2);
  expect(percentile([3, 1, 2], 1)).toBe(3);
  expect(percentile([], 0.5)).toBeNaN();
});
