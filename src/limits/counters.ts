// What a policy counts with, whatever its kind. Two steps, because several policies are asked before any is charged.
// An answer is in fields until the next call, because an object for each policy and request would cost more.
import type { CounterKey } from "../core/counter-key.ts";

/** What counts of a key. */
export interface OwnCount {
  readonly units: number;
  /** How long ago the newest of them was spent, in milliseconds. */
  readonly ageMs: number;
  /** When the period ends that they count in, by the wall clock; 0 if they count in none. */
  readonly periodEndMs: number;
}

export interface Counters {
  /** What is left after the request that was asked about; if it was refused, what is left without it. */
  readonly remaining: number;
  /** The monotonic instant at which more becomes available; if refused, at which the units fit. */
  readonly resetMs: number;
  /**
   * Chooses the key that the next calls are about, and adds its lock to those that the table takes. `client`: counted in
   * place of the key if there is no room for it.
   */
  select(key: CounterKey, client: CounterKey): void;
  /** Returns whether `units` fit below `limit`. Charges nothing. The table's locks must be held. */
  ask(limit: number, units: number, nowMs: number): boolean;
  /** Charges what `ask` has admitted. The locks must have been held since. Returns what `giveBack` needs. */
  charge(): number;
  /**
   * Sets `remaining` and `resetMs` without asking for units; takes and frees the locks. `units`: what a request would
   * spend; if that does not fit, `resetMs` is when it does. Default: 1.
   */
  peek(key: CounterKey, client: CounterKey, limit: number, nowMs: number, units?: number): void;
  /** Gives units back, if they are still counted; takes and frees the locks. `charged`: what `charge` has returned. */
  giveBack(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void;
  /** What was charged stays charged: `giveBack` will not be called. Takes and frees the locks. */
  keep(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void;
  /** What counts of a key; null if nothing does, or if it is not counted by itself. Takes and frees the locks. */
  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null;
  /** Returns the reset of a key with nothing stored. */
  unspentResetMs(nowMs: number): number;
}

/** Nobody knows when an exchange ends, so a client that may be admitted then is told to ask again after this time. */
export const heldRetryMs = 1000;

/** Those of this process. */
export interface LocalCounters extends Counters {
  /** Whether a request under way may end the refusal. Nobody knows when, so `resetMs` promises nothing. */
  readonly mayEndSoon: boolean;
}
