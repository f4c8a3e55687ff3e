// What deciding needs of the table besides its counters.
import type { Clock } from "../core/clock.ts";
import type { Locks } from "./table/locks.ts";

export interface LockedTable {
  /** Of the table that all policies count in. */
  readonly locks: Locks;
  /** Null if only one thread counts. */
  readonly clock: Clock | null;
}

/**
 * Returns the instant at which a request is charged, when the locks are held. A thread that has waited for them, or was
 * descheduled, would count at an instant before those of others, which may have expired by then.
 */
export function chargedAt({ clock }: LockedTable, nowMs: number): number {
  return clock === null ? nowMs : Math.max(nowMs, clock.monotonicMs());
}
