// What a policy counts with, whatever its kind. Two steps, because several policies are asked before any is charged.
// An answer is in fields until the next call, because an object for each policy and request would cost more.
import type { TableStats } from "./window-table.ts";

export interface Counters {
  /** What is left after the request that was asked about; if it was refused, what is left without it. */
  readonly remaining: number;
  /** The monotonic instant at which more becomes available; if refused, at which the units fit. */
  readonly resetMs: number;
  /** Returns whether `units` fit below `limit`. Charges nothing. */
  ask(key: string, limit: number, units: number, nowMs: number): boolean;
  /** Charges what `ask` has admitted; nothing may come in between. Returns what `giveBack` needs. */
  charge(): number;
  /** Asks and, if the units fit, charges them. */
  take(key: string, limit: number, units: number, nowMs: number): boolean;
  /**
   * Sets `remaining` and `resetMs` without asking for units. `units`: what a request would spend; if that does not fit,
   * `resetMs` is when it does. Default: 1.
   */
  peek(key: string, limit: number, nowMs: number, units?: number): void;
  /** Gives units back, if they are still counted. `charged`: what `charge` has returned. */
  giveBack(key: string, limit: number, units: number, charged: number): void;
  /** Returns the reset of a key with nothing stored. */
  unspentResetMs(nowMs: number): number;
  stats(): TableStats;
}
