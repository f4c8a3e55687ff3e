// Notes how long each test takes by itself: the processor time of its process, and the time for which its event loop waited. A busy
// machine makes a test last longer, but adds little to either.
import { afterEach, beforeEach } from "vitest";

declare module "vitest" {
  interface TaskMeta {
    ownMs?: number;
    /** For so long the event loop had nothing to do. */
    waitedMs?: number;
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
  lastMs = (user + system) / 1_000 + waitedMs();
  return lastMs;
}

const waitedMs = (): number => timer.eventLoopUtilization().idle;

const begun = new WeakMap<object, { readonly spentMs: number; readonly waitedMs: number }>();

beforeEach(({ task }) => void begun.set(task, { spentMs: spentMs(), waitedMs: waitedMs() }));

afterEach(({ task }) => {
  const before = begun.get(task);
  if (before === undefined) return;
  task.meta.ownMs = spentMs() - before.spentMs;
  task.meta.waitedMs = waitedMs() - before.waitedMs;
});
