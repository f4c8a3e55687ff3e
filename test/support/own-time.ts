// Notes how long each test takes by itself: the processor time of its process, and the time for which its event loop waited. A busy
// machine makes a test last longer, but adds little to either.
import { afterEach, beforeEach } from "vitest";

declare module "vitest" {
  interface TaskMeta {
    ownMs?: number;
  }
}

function spentMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000 + performance.eventLoopUtilization().idle;
}

const begun = new WeakMap<object, number>();

beforeEach(({ task }) => void begun.set(task, spentMs()));

afterEach(({ task }) => {
  task.meta.ownMs = spentMs() - (begun.get(task) ?? 0);
});
