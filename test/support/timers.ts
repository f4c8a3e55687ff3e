// Timers that a test moves ahead. Sockets, promises and `setImmediate` go on by themselves.
import { vi } from "vitest";
import type { Cleanup } from "./cleanup.ts";

/**
 * From now on, `vi.advanceTimersByTime` moves what `setTimeout` sets. Between such calls time goes on by itself in steps of
 * 20 ms, since parts of the gateway wait for short timers, and a machine that stalls counts as one step. Call it before the
 * gateway starts, so that it has no timer of the other kind.
 */
export function holdTimers(cleanup: Cleanup): void {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"], shouldAdvanceTime: true });
  cleanup(() => void vi.useRealTimers());
}
