// When a gateway gives back what its start has used.
import { getHeapSpaceStatistics } from "node:v8";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { collectOnceIdle } from "../../src/commands/start.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("garbage is collected once, after half a second without work", () => {
  const collect = vi.fn();
  let active = 1;
  const onCollected = vi.fn();
  collectOnceIdle(onCollected, collect, () => active);
  for (let i = 0; i < 5; i += 1) {
    active += 0.011;
    vi.advanceTimersByTime(500);
  }
  expect(collect).not.toHaveBeenCalled();
  active += 0.009;
  vi.advanceTimersByTime(500);
  expect(collect).toHaveBeenCalledOnce();
  expect(onCollected).toHaveBeenCalledExactlyOnceWith(expect.any(Number));
  vi.advanceTimersByTime(5000);
  expect(collect).toHaveBeenCalledOnce();
});

test("nothing is collected later than a minute after the start", () => {
  const collect = vi.fn();
  let active = 1;
  collectOnceIdle(
    () => {},
    collect,
    () => active,
  );
  for (let i = 0; i < 120; i += 1) {
    active += 0.011;
    vi.advanceTimersByTime(500);
  }
  vi.advanceTimersByTime(5000);
  expect(collect).not.toHaveBeenCalled();
});

test("nothing is collected after the gateway has ended", () => {
  const collect = vi.fn();
  const end = collectOnceIdle(
    () => {},
    collect,
    () => 0,
  );
  end();
  vi.advanceTimersByTime(5000);
  expect(collect).not.toHaveBeenCalled();
});

test("a collection makes the young generation small", () => {
  const youngBytes = () => getHeapSpaceStatistics().find((space) => space.space_name === "new_space")?.space_size;
  // What survives makes it grow.
  const survivors = Array.from({ length: 200_000 }, (_, i) => ({ i }));
  expect(youngBytes()).toBeGreaterThan(2 * 2 ** 20);
  expect(survivors.length).toBe(200_000);
  collectOnceIdle(
    () => {},
    undefined,
    () => 0,
  );
  vi.advanceTimersByTime(500);
  expect(youngBytes()).toBeLessThanOrEqual(2 ** 20);
});
