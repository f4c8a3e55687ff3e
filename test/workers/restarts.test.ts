import { expect, test } from "vitest";
import { Restarts } from "../../src/gateway/threads/worker.ts";

test("each thread that ends within a minute doubles the wait for the next, up to half a minute", () => {
  let nowMs = 0;
  const restarts = new Restarts(() => nowMs);
  expect(Array.from({ length: 11 }, () => restarts.next())).toEqual([
    ...[100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000],
  ]);
  expect(restarts.count).toBe(11);
  nowMs = 60_000;
  expect(restarts.next()).toBe(100);
});

test("a fault that ends every thread at once costs at most a dozen starts a minute", () => {
  let nowMs = 0;
  const restarts = new Restarts(() => nowMs);
  const startsMs: number[] = [];
  while (nowMs < 3_600_000) {
    nowMs += restarts.next();
    startsMs.push(nowMs);
  }
  const most = Math.max(
    ...startsMs.map((fromMs) => startsMs.filter((atMs) => atMs >= fromMs && atMs < fromMs + 60_000).length),
  );
  expect(most).toBeLessThanOrEqual(12);
});
