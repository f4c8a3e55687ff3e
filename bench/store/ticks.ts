// Ticks at shorter distances than timers of an event loop, which count whole milliseconds. A thread of its own sleeps, and
// wakes the loop by a message.
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

/** The same in all threads. */
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** `tick` is called in `firstMs` and about each `gapMs` from then on; later while this thread is busy. */
export function startTicks(firstMs: number, gapMs: number, tick: () => void): void {
  const thread = new Worker(new URL(import.meta.url), { workerData: { firstMs: nowMs() + firstMs, gapMs } });
  thread.on("message", tick);
  thread.unref();
}

if (!isMainThread && workerData?.gapMs !== undefined) {
  const never = new Int32Array(new SharedArrayBuffer(4));
  for (let dueMs: number = workerData.firstMs; ; dueMs += workerData.gapMs) {
    const waitMs = dueMs - nowMs();
    if (waitMs > 0) Atomics.wait(never, 0, 0, waitMs);
    parentPort?.postMessage(0);
  }
}
