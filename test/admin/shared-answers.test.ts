import { beforeEach, expect, test, vi } from "vitest";
import { SharedAnswers } from "../../src/admin/turns.ts";

beforeEach(({ onTestFinished }) => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
});

/** `lengthMs`: of each rendering, by the clock. */
function start(lengthMs: number, failing = 0) {
  let [nowMs, renderings] = [0, 0];
  const scrapes = new SharedAnswers(
    async () => {
      renderings += 1;
      nowMs += lengthMs;
      if (renderings <= failing) throw new Error("no figures");
      return renderings;
    },
    { monotonicMs: () => nowMs },
  );
  return { scrapes, renderings: () => renderings };
}

test("a scrape after a pause is rendered at once", async () => {
  const { scrapes } = start(3);
  expect(await scrapes.rendered()).toBe(1);
  await vi.advanceTimersByTimeAsync(60);
  expect(await scrapes.rendered()).toBe(2);
});

test("scrapes that come during a rendering and in the pause behind it share the next one", async () => {
  const { scrapes, renderings } = start(3);
  const first = scrapes.rendered();
  await Promise.resolve();
  await Promise.resolve();
  const others = Array.from({ length: 100 }, () => scrapes.rendered());
  expect(await first).toBe(1);
  await vi.advanceTimersByTimeAsync(59);
  expect(renderings()).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(await Promise.all(others)).toEqual(Array(100).fill(2));
});

test("a flood of scrapes takes at most 5 % of the time", async () => {
  const { scrapes, renderings } = start(2);
  for (let ms = 0; ms < 1_000; ms += 1) {
    void scrapes.rendered();
    await vi.advanceTimersByTimeAsync(1);
  }
  expect(renderings() * 2).toBeLessThanOrEqual(0.05 * 1_000 + 2);
  expect(renderings()).toBeGreaterThan(20);
});

test("a slow rendering delays the next one by no more than half a second", async () => {
  const { scrapes, renderings } = start(1_000);
  await scrapes.rendered();
  const next = scrapes.rendered();
  await vi.advanceTimersByTimeAsync(499);
  expect(renderings()).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(await next).toBe(2);
});

test("a rendering that fails is the failure of those that share it, and of no other", async () => {
  const { scrapes } = start(3, 1);
  const both = [scrapes.rendered(), scrapes.rendered()];
  for (const one of both) await expect(one).rejects.toThrow("no figures");
  await vi.advanceTimersByTimeAsync(60);
  expect(await scrapes.rendered()).toBe(2);
});
