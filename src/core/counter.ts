// What a table of counters keeps for one key: units, each with the instant of its admission, until they expire. The
// table decides; a counter only counts. Half open: a unit counts while it is younger than the window, and has expired
// at the age of exactly the window.

export interface Counter {
  /** Forgets what has expired, and returns the units that still count. */
  count(nowMs: number, windowMs: number): number;
  /**
   * Adds `units` of one instant and returns it: `nowMs`, or the newest instant if that is later. With them, at most
   * `limit` units may count.
   */
  record(units: number, nowMs: number, limit: number): number;
  /** Removes `units` of one instant, as far as they are still there. Returns the units that are left. */
  remove(units: number, atMs: number): number;
  /** Returns the instant of a unit that counts. `index`: 0 for the oldest. */
  instantAt(index: number): number;
  /** Returns the instant of the newest unit, also if it has expired; -Infinity if there was none. */
  newestMs(): number;
}
