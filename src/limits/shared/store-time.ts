// Waits for the store, and not for this thread: time in which the thread stood still (a collection, a long turn, a machine
// that is busy with others) is not the store's, which may have stood still with it.
import type { Clock } from "../../core/clock.ts";
import type { Timers } from "../../core/shared-store.ts";

/** A wait has so many steps; a step in which this thread stood still counts as if it had ended in time. */
const steps = 4;
/** A timer of a thread that is well is late by less. */
export const lateMs = 2;
/** Timers are not more exact. */
const leastMs = 1;

/** Calls `over` when the store has had `ms`, and what has arrived by then was read. */
export function afterStoreTime(
  { clock, timers }: { readonly clock: Clock; readonly timers: Timers },
  ms: number,
  over: () => void,
): { cancel(): void } {
  const stepMs = ms / steps;
  let leftMs = ms;
  let isCancelled = false;
  const step = (): { cancel(): void } => {
    const startMs = clock.monotonicMs();
    const stepEndMs = Math.min(stepMs, leftMs);
    return timers.after(stepEndMs, () => {
      const passedMs = clock.monotonicMs() - startMs;
      // A timer may also be early by the time that its turn had lasted when it was set.
      leftMs -= passedMs > stepEndMs + lateMs ? stepEndMs : passedMs;
      if (leftMs >= leastMs) timer = step();
      else timers.endOfTurn(() => !isCancelled && over());
    });
  };
  let timer = step();
  return {
    cancel() {
      isCancelled = true;
      timer.cancel();
    },
  };
}
