// Latency by route, as the console reads it from the metrics.
import { expect, test } from "vitest";
import { readMetrics } from "../../src/admin/console/routes.js";

/** `times`: for each route, how many took up to 1 ms, up to 10 ms, and longer. */
function metricsOf(times: Readonly<Record<string, readonly [number, number, number]>>): string {
  const lines = ["upstream", "request"].flatMap((kind) => {
    return Object.entries(times).flatMap(([route, [short, middle, long]]) => {
      const counts = { "0.001": short, "0.01": short + middle, "+Inf": short + middle + long };
      return Object.entries(counts).map(
        ([le, count]) => `headgate_${kind}_duration_seconds_bucket{le="${le}",route="${route}"} ${count}`,
      );
    });
  });
  return [
    "",
    ...lines,
    'headgate_counters_memory_bytes{state="used"} 1',
    'headgate_counters_memory_bytes{state="free"} 3',
    "",
  ].join("\n");
}

const shown = ({ routes }: ReturnType<typeof readMetrics>) => {
  return routes.map(({ route, upstream: { count, p50, p99 } }) => [route, count, p50, p99]);
};

test("at first what was counted since the start, then what has been counted since the last reading, those with the most first", () => {
  const first = readMetrics(metricsOf({ "/a/": [98, 2, 0], "/b/": [0, 90, 10], "/c/": [0, 0, 0] }), 1_000, null);
  expect([first.countersUsed, first.sinceMs]).toEqual([0.25, null]);
  expect(shown(first)).toEqual([
    ["/a/", 100, "< 1 ms", "5.5 ms"],
    ["/b/", 100, "6 ms", "> 10 ms"],
  ]);
  const next = readMetrics(metricsOf({ "/a/": [98, 12, 0], "/b/": [0, 90, 10], "/c/": [1, 0, 0] }), 61_000, first);
  expect(next.sinceMs).toBe(1_000);
  expect(shown(next)).toEqual([
    ["/a/", 10, "5.5 ms", "9.9 ms"],
    ["/c/", 1, "< 1 ms", "< 1 ms"],
  ]);
});

test("a gateway that has started again counts from zero", () => {
  const before = readMetrics(metricsOf({ "/a/": [50, 50, 0] }), 1_000, null);
  expect(shown(readMetrics(metricsOf({ "/a/": [4, 0, 0] }), 61_000, before))).toEqual([["/a/", 4, "< 1 ms", "< 1 ms"]]);
});

test("a route with quotes is one route", () => {
  expect(shown(readMetrics(metricsOf({ '/a\\"b/': [1, 0, 0] }), 0, null))).toEqual([
    ['/a\\"b/', 1, "< 1 ms", "< 1 ms"],
  ]);
});
