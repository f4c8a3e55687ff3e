// Notes how long each test takes by itself: the processor time of its process, and the time for which its event loop waited. A busy
// machine makes a test last longer, but adds little to either.
import { afterEach, beforeEach } from "vitest";

declare module "vitest" {
  interface TaskMeta {
    ownMs?: number;
  }
}

/** Most tests end sooner, and to ask the system how much time the process took is a part of theirs. */
const exactMs = 20;
let lastAtMs = Number.NEGATIVE_INFINITY;
let lastMs = 0;
/** Taken before a test can replace it. */
const timer = performance;

function spentMs(): number {
  const nowMs = timer.now();
  if (nowMs - lastAtMs < exactMs) return lastMs;
  const { user, system } = process.cpuUsage();
  lastAtMs = nowMs;
  lastMs = (user + system) / 1_000 + timer.eventLoopUtilization().idle;
  return lastMs;
}

const begun = new WeakMap<object, number>();

beforeEach(({ task }) => void begun.set(task, spentMs()));

afterEach(({ task }) => {
  task.meta.ownMs = spentMs() - (begun.get(task) ?? 0);
});
