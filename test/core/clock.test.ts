import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
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

describe("the wall clock at an instant", () => {
  /** What both clocks show. */
  const shown = { monotonicMs: 0, wallMs: 1_700_000_000_000 };
  beforeEach(() => {
    // Far from what tests before have read.
    shown.monotonicMs += 1_000_000;
    shown.wallMs = 1_700_000_000_000;
    vi.spyOn(performance, "now").mockImplementation(() => shown.monotonicMs);
    vi.spyOn(Date, "now").mockImplementation(() => Math.floor(shown.wallMs));
  });
  afterEach(() => void vi.restoreAllMocks());

  test("goes on as the monotonic one, and a step of it is noticed after 50 ms", () => {
    const beginMs = shown.monotonicMs;
    const wallAt = (passedMs: number): number => {
      shown.monotonicMs = beginMs + passedMs;
      return systemClock.wallMsAt(shown.monotonicMs);
    };
    // Never early: the wall clock has dropped its fraction.
    expect(wallAt(0)).toBe(1_700_000_000_001);
    shown.wallMs = 1_600_000_000_000;
    expect(wallAt(10)).toBe(1_700_000_000_011);
    // Whole milliseconds as those of a reading, or the Reset of a new window may be 62 s after Date.
    expect(wallAt(10.25)).toBe(1_700_000_000_012);
    // An instant before that of the reading.
    expect(wallAt(-10)).toBe(1_699_999_999_991);
    expect(wallAt(49)).toBe(1_700_000_000_050);
    expect(wallAt(50)).toBe(1_600_000_000_001);
    expect(wallAt(99)).toBe(1_600_000_000_050);
    shown.wallMs = 1_700_000_000_000;
    expect(wallAt(0)).toBe(1_700_000_000_001);
  });

  test("is not shared by clocks with another monotonic time", () => {
    const nowMs = shown.monotonicMs;
    vi.mocked(performance.now).mockRestore();
    const aheadMs = 20;
    const ahead = createThreadClock(monotonicOffsetMs() - aheadMs);
    vi.spyOn(performance, "now").mockReturnValue(nowMs);
    expect(systemClock.wallMsAt(nowMs)).toBe(1_700_000_000_001);
    expect(ahead.wallMsAt(ahead.monotonicMs())).toBe(1_700_000_000_001);
  });

  test.each(["before", "behind"])("is exact if the process does not run %s its reading", (when) => {
    const pauses = [2_000, 300];
    const passes = (ms = 0): void => {
      shown.monotonicMs += ms;
      shown.wallMs += ms;
    };
    vi.mocked(Date.now).mockImplementation(() => {
      if (when === "before") passes(pauses.shift());
      const readMs = Math.floor(shown.wallMs);
      passes(pauses.shift());
      return readMs;
    });
    // Nor was it since the instant.
    const atMs = shown.monotonicMs;
    passes(700);
    expect(systemClock.wallMsAt(atMs)).toBe(1_700_000_000_001);
    expect(pauses).toEqual([]);
  });
});
