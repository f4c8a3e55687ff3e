import { Worker } from "node:worker_threads";
import { expect, test, vi } from "vitest";
import { createThreadClock, monotonicOffsetMs, systemClock } from "../../src/core/clock.ts";

test("another thread reads the time of the main thread", async () => {
  const clockUrl = new URL("../../src/core/clock.ts", import.meta.url).href;
  const code = `
    const { parentPort, workerData } = require("node:worker_threads");
    import(workerData.clockUrl).then(({ createThreadClock }) => {
      const clock = createThreadClock(workerData.mainOffsetMs);
      const answer = () => parentPort.postMessage(clock.monotonicMs());
      parentPort.on("message", answer);
      answer();
    });`;
  const thread = new Worker(code, { eval: true, workerData: { clockUrl, mainOffsetMs: monotonicOffsetMs() } });
  const answer = () => new Promise<number>((resolve) => thread.once("message", resolve));
  await answer();
  for (let i = 0; i < 20; i += 1) {
    const askedMs = systemClock.monotonicMs();
    const answered = answer();
    thread.postMessage(null);
    const readMs = await answered;
    // Each instant is measured to a few microseconds.
    expect(readMs).toBeGreaterThan(askedMs - 0.05);
    expect(readMs).toBeLessThan(systemClock.monotonicMs() + 0.05);
  }
  await thread.terminate();
});

test("in the main thread the clock of a thread is its own", () => {
  const clock = createThreadClock(monotonicOffsetMs());
  const beforeMs = systemClock.monotonicMs();
  const readMs = clock.monotonicMs();
  // Each instant is measured to a few microseconds.
  expect(readMs).toBeGreaterThan(beforeMs - 0.05);
  expect(readMs).toBeLessThan(systemClock.monotonicMs() + 0.05);
});

test("the wall clock at an instant goes on as the monotonic one, and a step of it is noticed after 50 ms", () => {
  const dateNow = vi.spyOn(Date, "now");
  try {
    const beginMs = systemClock.monotonicMs() + 1_000_000;
    const wallAt = (passedMs: number): number => systemClock.wallMsAt(beginMs + passedMs);
    dateNow.mockReturnValue(1_700_000_000_000);
    // Never early: the wall clock has dropped its fraction.
    expect(wallAt(0)).toBe(1_700_000_000_001);
    dateNow.mockReturnValue(1_600_000_000_000);
    expect(wallAt(10)).toBe(1_700_000_000_011);
    // Whole milliseconds as those of a reading, or the Reset of a new window may be 62 s after Date.
    expect(wallAt(10.25)).toBe(1_700_000_000_012);
    // An instant before that of the reading.
    expect(wallAt(-10)).toBe(1_699_999_999_991);
    expect(wallAt(49)).toBe(1_700_000_000_050);
    expect(wallAt(50)).toBe(1_600_000_000_001);
    expect(wallAt(99)).toBe(1_600_000_000_050);
    dateNow.mockReturnValue(1_700_000_000_000);
    expect(wallAt(0)).toBe(1_700_000_000_001);
  } finally {
    dateNow.mockRestore();
  }
});

test("clocks with another monotonic time do not share a reading of the wall clock", () => {
  const dateNow = vi.spyOn(Date, "now").mockReturnValue(1_700_000_000_000);
  try {
    const nowMs = systemClock.monotonicMs() + 2_000_000;
    expect(systemClock.wallMsAt(nowMs)).toBe(1_700_000_000_001);
    const aheadMs = 20;
    const ahead = createThreadClock(monotonicOffsetMs() - aheadMs);
    expect(ahead.wallMsAt(nowMs + aheadMs)).toBe(1_700_000_000_001);
  } finally {
    dateNow.mockRestore();
  }
});
