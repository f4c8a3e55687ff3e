import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
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
  const before = systemClock.monotonicMs();
  expect(Math.abs(clock.monotonicMs() - before)).toBeLessThan(1);
});
