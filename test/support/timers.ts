// Timers of tests. Those that a test moves ahead: sockets, promises and `setImmediate` go on by themselves.
import { vi } from "vitest";
import type { Timers } from "../../src/core/store-link.ts";
import type { Cleanup } from "./cleanup.ts";

/** The timers of a store's limiter, as the gateway has them. */
export const realTimers: Timers = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms).unref();
    return { cancel: () => clearTimeout(timer) };
  },
  endOfTurn: (run) => void setImmediate(run),
};

/**
 * From now on, `vi.advanceTimersByTime` moves what `setTimeout` sets. Between such calls time goes on by itself in steps of
 * 20 ms, since parts of the gateway wait for short timers, and a machine that stalls counts as one step. Call it before the
 * gateway starts, so that it has no timer of the other kind.
 */
export function holdTimers(cleanup: Cleanup): void {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"], shouldAdvanceTime: true });
  cleanup(() => void vi.useRealTimers());
}

/** From now on, only `vi.advanceTimersByTime` moves what `setInterval` sets: connections are looked at when the test says so. */
export function holdIntervals(cleanup: Cleanup): void {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  cleanup(() => void vi.useRealTimers());
}
